// What a record says was decided: a denial for every refusal of a stage, whatever its cause, over each face.
import {
  type Call,
  denied,
  type ErrorCode,
  failed,
  isErrorCode,
  type Next,
  type Outcome,
  Refusal,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { governed } from 'svc-sdk'
import { definePlugin } from 'svc-sdk/core'
import { z } from 'zod'
import { recordingTo, startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { lastMessage, postStateless } from '../../support/mcp-post.js'
import { json } from '../../support/mcp-server.js'
import { pairwise } from '../../support/pairwise.js'
import { ofSuite } from '../../support/parts.js'
import { signalled } from '../../support/signalled.js'
import { startSessionServer } from '../../support/tool-servers.js'
import { startUpstream } from '../../support/upstream.js'
import { FunctionsRig } from '../in-process/rig.js'

/** The ways in which a stage refuses a call. */
const refusing: Readonly<Record<string, (code: ErrorCode) => Outcome>> = {
  denied: (code) => denied(code, 'refused'),
  failed: (code) => failed(code, 'refused'),
  thrown: (code) => {
    throw new Refusal(code, 'refused')
  },
  broken: () => {
    throw new Error('a mistake of the stage')
  },
}

/** All of them: the type says so. */
const codes = Object.keys({
  BAD_REQUEST: true,
  UNAUTHENTICATED: true,
  UNAUTHORIZED_TENANT: true,
  TOOL_NOT_ALLOWED: true,
  ESCALATION_PENDING: true,
  ESCALATION_REJECTED: true,
  CONFIRMATION_REQUIRED: true,
  TARGET_NOT_FOUND: true,
  METHOD_NOT_ALLOWED: true,
  IDEMPOTENT_DUPLICATE: true,
  IDEMPOTENT_OUTCOME_UNKNOWN: true,
  PAYLOAD_TOO_LARGE: true,
  IDEMPOTENCY_KEY_REUSED: true,
  RATE_LIMITED: true,
  QUOTA_EXCEEDED: true,
  UPSTREAM: true,
  BROKER_UNAVAILABLE: true,
  UPSTREAM_UNREACHABLE: true,
  STORE_UNAVAILABLE: true,
  AUDIT_UNAVAILABLE: true,
  RUNTIME_UNAVAILABLE: true,
  DRAINING: true,
  DURATION_EXCEEDED: true,
  CANCELLED: true,
  OUTCOME_UNKNOWN: true,
  OUTCOME_UNRECORDED: true,
  INTERNAL: true,
} satisfies Record<ErrorCode, true>).filter(isErrorCode)

interface Refused {
  readonly phase: string
  readonly how: string
  readonly code: string
}

const known = ['authentication', 'evaluation', 'metering'] as const
/**
 * A gateway writes at most 50 records a second of calls without an identified caller: `redaction` and two of the codes, which
 * therefore meet each way of refusing and each phase, but not both.
 */
const cases: readonly Refused[] = [
  ...pairwise(known, ['denied', 'failed', 'thrown'], codes).map(([phase, how, code]) => ({
    phase,
    how,
    code,
  })),
  ...known.map((phase) => ({ phase, how: 'broken', code: 'STORE_UNAVAILABLE' })),
  ...Object.keys(refusing).map((how) => ({ phase: 'redaction', how, code: 'STORE_UNAVAILABLE' })),
]

/** Refuses a call as its arguments say. */
const probes = (['redaction', ...known] as const).map((phase) => {
  const handle = async (call: Call, next: Next): Promise<Outcome> => {
    const { args } = await call.request()
    const { phase: at, how, code } = isJsonObject(args) ? args : {}
    const refuse = at === phase ? refusing[String(how)] : undefined
    return refuse === undefined || !isErrorCode(code) ? next() : refuse(code)
  }
  return definePlugin({
    name: `probe_${phase}`,
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}),
    phase,
    create: () => ({ handle }),
  })
})
const sections = { plugins: probes, ...Object.fromEntries(probes.map(({ name }) => [name, {}])) }

/** The records of calls, and the settings by which a gateway adds them. */
function recording() {
  const records: AuditEnvelope[] = []
  let { happened, resolve } = signalled()
  const append = async (record: AuditEnvelope) => {
    if (!record.tool.startsWith('act@')) return
    records.push(record)
    resolve()
  }
  /** Those since the last time, at least one: the response may come before its record. */
  const taken = async () => {
    await happened
    ;({ happened, resolve } = signalled())
    return records.splice(0)
  }
  return { taken, ...recordingTo({ append }) }
}

describe('the decision in a record', () => {
  const { taken, ...recorded } = recording()

  const plain = ofSuite(() => startUpstream((_call, response) => json(response, {})))
  const server = ofSuite(() =>
    startSessionServer('files', (mcp) => {
      mcp.registerTool('act', {}, () => ({ content: [] }))
    }),
  )
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: { files: server.url, plain: plain.url },
      ...sections,
      ...recorded,
    }),
  )
  const rig = ofSuite(() => new FunctionsRig({ ...sections, ...recorded }))

  const faces: Readonly<Record<string, (args: object) => Promise<unknown>>> = {
    invoke: async (args) => (await gateway.invoke('/mcp/plain/act@1.0.0', args)).text(),
    'MCP, one server': async (args) => call('/mcp/files', 'act', args),
    'MCP, all servers': async (args) => call('/mcp', await listed(), args),
    'a function': (args) =>
      governed(
        rig.pipeline,
        { server: 'files', name: 'act', version: '1.0.0' },
        () => 'done',
      )({ ...args }).catch(() => undefined),
  }

  const call = async (path: string, name: string, args: object) =>
    lastMessage(await postStateless(`${gateway.url}${path}`, 'tools/call', { name, arguments: args }))

  let name: string | undefined
  async function listed(): Promise<string> {
    if (name !== undefined) return name
    const list = await lastMessage<{ result?: { tools?: { name: string }[] } }>(
      await postStateless(`${gateway.url}/mcp`, 'tools/list'),
    )
    name = list.result?.tools?.map(({ name }) => name).find((name) => name.includes('act')) ?? 'act'
    return name
  }

  for (const [face, make] of Object.entries(faces)) {
    it(`over ${face} is deny for each code with which a stage refuses, however it does`, async () => {
      const wrong: object[] = []
      for (const one of cases) {
        await make(one)
        const [record, ...others] = await taken()
        if (record === undefined || others.length > 0) wrong.push({ ...one, records: others.length })
        else if (record.policy.decision !== 'deny' || record.sent !== 'no') {
          wrong.push({ ...one, decision: record.policy.decision, sent: record.sent })
        }
      }
      expect(wrong.slice(0, 5), `${wrong.length} of ${cases.length}`).to.deep.equal([])
    })

    it(`over ${face} is allow for a call that every stage passes on`, async () => {
      await make({})
      expect((await taken()).map(({ policy }) => policy.decision)).to.deep.equal(['allow'])
    })
  }

  it('is deny if the keys of the issuer cannot be fetched', async () => {
    await using issuer = await TestIssuer.start()
    const token = await issuer.sign()
    issuer.response((_request, response) => void response.writeHead(503).end())
    const { taken: own, ...settings } = recording()
    await using closed = await startTestGateway({
      ...settings,
      targets: { plain: plain.url },
      authn: { oidc: issuer.oidc },
    })
    const response = await closed.invoke('/mcp/plain/act@1.0.0', {}, { authorization: `Bearer ${token}` })
    expect(response.status).to.equal(503)
    expect((await own())[0]).to.deep.include({
      error: 'STORE_UNAVAILABLE',
      decided_by: { stage: 'authn' },
      policy: { decision: 'deny', retention: 'standard' },
    })
  })

  it('is allow if every stage passes the call on, and its server cannot be reached', async () => {
    const { taken: own, ...settings } = recording()
    await using closed = await startTestGateway({ ...settings, targets: { plain: 'http://127.0.0.1:1' } })
    await closed.invoke('/mcp/plain/act@1.0.0')
    const [record] = await own()
    expect(record).to.deep.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'no' })
    expect(record?.policy.decision).to.equal('allow')
  })
})
