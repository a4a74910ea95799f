import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { type AuditEnvelope, AuditError } from 'svc-sdk/audit'
import { canonicalize, fromBase64, LocalDevSigner, sha256Hex, toBase64 } from 'svc-sdk/signer'
import { startCloud } from '../plugins/audit/log/upload/cloud.js'
import { daily, envelope, isSigned, openLog, openUploadingLog, presignFor, today } from './log.js'
import { type Answered, serving } from './rig.js'
import { contractSection } from './section.js'

const hex = (text: string) => createHash('sha256').update(text).digest('hex')

/** A gateway whose log was written by one full call, and by one that was refused. */
async function recorded() {
  const rig = await serving({
    security: { egress_allowlist: ['good.example'], side_effects: { require_idempotency_key: true } },
  })
  const state = { variables: { goal: 'invoice' }, metadata: { model: 'm' } }
  const headers = {
    'x-node-id': 'node-1',
    'x-agent-ref': 'run-1',
    'x-agent-state': Buffer.from(JSON.stringify(state)).toString('base64url'),
    'idempotency-key': 'order-1',
    'x-cause-trace': 'a'.repeat(32),
    'x-cause-span': 'b'.repeat(16),
  }
  const full = await rig.call({ args: { b: 1, a: 2 }, headers })
  const denied = await rig.call({ args: { url: 'https://evil.example/' } })
  return { rig, full, denied, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() }
}

interface Field {
  readonly letter: string
  readonly text: string
  check(full: Answered, denied: Answered): void
}

const fields: readonly Field[] = [
  {
    letter: 'a',
    text: '`ts` is an ISO 8601 timestamp.',
    check: ({ record }) => expect(new Date(record.ts).toISOString()).to.equal(record.ts),
  },
  {
    letter: 'b',
    text: '`trace_id` is the trace id, hexadecimal.',
    check: ({ record, headers }) => {
      expect(record.trace_id).to.match(/^[0-9a-f]{32}$/)
      expect(headers.get('traceparent')).to.include(record.trace_id)
    },
  },
  {
    letter: 'c',
    text: '`span_id` is the span id, hexadecimal.',
    check: ({ record, headers }) => {
      expect(record.span_id).to.match(/^[0-9a-f]{16}$/)
      expect(headers.get('x-span-id')).to.equal(record.span_id)
    },
  },
  {
    letter: 'd',
    text: '`tenant` is the tenant.',
    check: ({ record }) => expect(record.tenant).to.equal('acme'),
  },
  {
    letter: 'e',
    text: '`environment` is the environment.',
    check: ({ record }) => expect(record.environment).to.equal('dev'),
  },
  {
    letter: 'f',
    text: '`client_name` is the client application.',
    check: ({ record }) => expect(record.client_name).to.equal('gw'),
  },
  {
    letter: 'g',
    text: '`client_version` is its version.',
    check: ({ record }) => expect(record.client_version).to.equal('1.0.0'),
  },
  {
    letter: 'h',
    text: '`server` has the form `<name>@<version>`.',
    check: ({ record }) => expect(record.server).to.equal('files@1.0.0'),
  },
  {
    letter: 'i',
    text: '`tool` has the form `<name>@<version>`.',
    check: ({ record }) => expect(record.tool).to.equal('read@1.0.0'),
  },
  {
    letter: 'j',
    text: '`status` is `ok` or `error`, the outcome.',
    check: (full, denied) =>
      expect([full.record.status, denied.record.status]).to.deep.equal(['ok', 'error']),
  },
  {
    letter: 'k',
    text: '`latency_ms` is the latency in milliseconds, a number.',
    check: ({ record }) => expect(record.latency_ms).to.be.a('number').within(0, 60_000),
  },
  {
    letter: 'l',
    text: '`retries` is the retry count, a number.',
    check: ({ record }) => expect(record.retries).to.equal(0),
  },
  {
    letter: 'm',
    text: '`input_sha256` is the SHA-256 of the canonicalized input.',
    check: ({ record }) => expect(record.input_sha256).to.equal(hex('{"a":2,"b":1}')),
  },
  {
    letter: 'n',
    text: '`output_sha256` is the SHA-256 of the tool output.',
    check: ({ record, body }) => expect(record.output_sha256).to.equal(hex(JSON.stringify(body))),
  },
  {
    letter: 'o',
    text: '`output_sha256` is null where there was no output.',
    check: (_full, { record }) => expect(record.output_sha256).to.equal(null),
  },
  {
    letter: 'p',
    text: '`policy.decision` is `allow` or `deny`.',
    check: (full, denied) =>
      expect([full.record.policy.decision, denied.record.policy.decision]).to.deep.equal(['allow', 'deny']),
  },
  {
    letter: 'q',
    text: '`policy.retention` is the retention class.',
    check: ({ record }) => expect(record.policy.retention).to.equal('standard'),
  },
  {
    letter: 'r',
    text: '`idempotency_key` is the key of the call, or null.',
    check: (full, denied) =>
      expect([full.record.idempotency_key, denied.record.idempotency_key]).to.deep.equal(['order-1', null]),
  },
  {
    letter: 's',
    text: '`nodeId` is the node identifier, or null.',
    check: (full, denied) =>
      expect([full.record.nodeId, denied.record.nodeId]).to.deep.equal(['node-1', null]),
  },
  {
    letter: 't',
    text: '`agentRef` is the agent run reference, or null.',
    check: (full, denied) =>
      expect([full.record.agentRef, denied.record.agentRef]).to.deep.equal(['run-1', null]),
  },
  {
    letter: 'u',
    text: '`agentVariables` is an object of the agent state, or null.',
    check: (full, denied) =>
      expect([full.record.agentVariables, denied.record.agentVariables]).to.deep.equal([
        { goal: 'invoice' },
        null,
      ]),
  },
  {
    letter: 'v',
    text: '`sig` has the form `ed25519:<BASE64>`.',
    check: ({ record }) => expect(record.sig).to.match(/^ed25519:[A-Za-z0-9+/]{86}==$/),
  },
  {
    letter: 'w',
    text: 'The envelope carries the cause trace and span, and agent metadata.',
    check: ({ record }) =>
      expect(record).to.deep.include({
        cause_trace_id: 'a'.repeat(32),
        cause_span_id: 'b'.repeat(16),
        agentMetadata: { model: 'm' },
      }),
  },
  {
    letter: 'x',
    text: 'The envelope carries risk tags and findings.',
    check: (_full, { record }) => {
      expect(record.risk_tags).to.deep.equal(['egress_violation'])
      expect(record.findings?.[0]).to.include({ reason: 'egress_violation', effect: 'deny' })
    },
  },
]

const wrongTypes: Partial<Record<keyof AuditEnvelope, unknown>> = {
  ts: 'yesterday',
  trace_id: 7,
  span_id: undefined,
  tenant: null,
  environment: 1,
  client_name: {},
  client_version: [],
  server: '',
  tool: 3,
  status: 'done',
  latency_ms: '3',
  retries: '0',
  input_sha256: 1,
  output_sha256: {},
  policy: { decision: 'maybe', retention: 'standard' },
  idempotency_key: 5,
  nodeId: 5,
  agentRef: {},
  agentVariables: 'x',
}

contractSection('2.1', 'Audit envelope', ({ holds, given }) => {
  const all = given(recorded)
  for (const { letter, text, check } of fields) {
    holds(letter, text, () => check(all().full, all().denied))
  }

  holds('y', 'Every field has the type that the table gives: `append` rejects another.', async () => {
    await using log = await openLog()
    for (const [field, value] of Object.entries(wrongTypes)) {
      const changes = { [field]: value } as Partial<AuditEnvelope>
      const fault = await log.appender.append(envelope(changes)).catch((thrown: unknown) => thrown)
      expect(fault, field).to.be.instanceOf(AuditError)
    }
    expect(log.has(daily) ? log.lines(daily) : []).to.deep.equal([])
  })
})

/** The raw payloads of one call through a gateway, input first. */
async function payloads() {
  const cloud = await startCloud()
  const rig = await serving(
    (home) => ({
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: `${home}/audit`,
        signer: { keyRef: `file://${home}/key` },
        presign: presignFor(cloud),
        raw_payloads: true,
        rawPreviewBytes: 64,
      },
    }),
    (_call, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ text: 'x'.repeat(200) }))
    },
  )
  const answer = await rig.call({
    args: { password: 'hunter2' },
    headers: { 'x-node-id': 'n', 'x-agent-ref': 'run-9' },
  })
  // Closing the gateway waits for the payloads, which no call waits for.
  await rig.gateway.handle.close()
  const lines = readFileSync(`${rig.gateway.dir}/raw/raw-${today}.ndjson`, 'utf8').split('\n').filter(Boolean)
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  return {
    answer,
    input: records.find(({ direction }) => direction === 'input') ?? {},
    output: records.find(({ direction }) => direction === 'output') ?? {},
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      await cloud[Symbol.asyncDispose]()
    },
  }
}

contractSection('2.2', 'Raw payload record', ({ holds, given }) => {
  const raw = given(payloads)
  holds('a', '`ts` is an ISO 8601 timestamp.', () => {
    const ts = String(raw().input['ts'])
    expect(new Date(ts).toISOString()).to.equal(ts)
  })
  holds('b', '`trace_id` is the trace id of the call.', () => {
    expect(raw().input['trace_id']).to.equal(raw().answer.record.trace_id)
  })
  holds('c', '`span_id` is the span id of the call.', () => {
    expect(raw().input['span_id']).to.equal(raw().answer.record.span_id)
  })
  holds('d', '`runId` is the run identifier.', () => expect(raw().input['runId']).to.equal('run-9'))
  holds('e', '`tenant` is the tenant.', () => expect(raw().input['tenant']).to.equal('acme'))
  holds('f', '`direction` is `input` for requests, and another value for answers.', () => {
    expect(raw().input['direction']).to.equal('input')
    expect(raw().output['direction']).to.equal('output')
  })
  holds('g', '`payload_preview` is a redacted preview.', () => {
    expect(raw().input['payload_preview']).to.equal('{"password":"[redacted]"}')
  })
  holds('h', '`payload_truncated` says whether the preview is truncated.', () => {
    expect(raw().input['payload_truncated']).to.equal(false)
    expect(raw().output['payload_truncated']).to.equal(true)
  })
  holds('i', '`payload_bytes` is the size of the whole payload in bytes.', () => {
    expect(raw().input['payload_bytes']).to.equal('{"password":"hunter2"}'.length)
    expect(raw().output['payload_bytes']).to.equal('{"text":""}'.length + 200)
  })
})

contractSection('2.3', 'Upload configuration', ({ holds }) => {
  const uploadBody = async (presign: object, without: readonly string[] = []) => {
    await using log = await openUploadingLog(presign, without)
    await log.appender.append(envelope())
    await log.appender.flush()
    const [request] = log.cloud.asked('/api/svc/upload-url')
    return { headers: request?.headers, body: JSON.parse(String(request?.body)) as Record<string, unknown> }
  }
  holds('a', '`apiBaseUrl` is the base address of the control plane.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    expect(log.cloud.requests[0]?.path).to.equal('/api/svc/upload-url')
    await expectRejected({ apiBaseUrl: 'ftp://x' }, 'apiBaseUrl')
  })
  holds('b', '`auditKey` is the exact value of the `Authorization` header.', async () => {
    const { headers } = await uploadBody({ auditKey: 'Custom a b' })
    expect(headers?.authorization).to.equal('Custom a b')
  })
  for (const [letter, field, sent, value] of [
    ['c', 'tenant', 'tenant', 'umbrella'],
    ['d', 'environment', 'env', 'staging'],
    ['e', 'clientName', 'clientName', 'cli'],
    ['f', 'clientVersion', 'clientVersion', '2.0.0'],
  ] as const) {
    holds(letter, `\`${field}\` is sent with each upload.`, async () => {
      const { body } = await uploadBody({ [field]: value })
      expect(body[sent]).to.equal(value)
      expect(body['key']).to.include(value)
    })
  }
  holds('g', '`timeoutMs` bounds the calls to the control plane, in milliseconds.', async () => {
    await using log = await openUploadingLog({ timeoutMs: 50 })
    log.cloud.fault = ({ path }) => path === '/api/svc/upload-url'
    await log.appender.append(envelope())
    await log.appender.flush()
    expect(log.appender.status().upload?.error?.message).to.include('50 ms')
  })
  holds('h', 'With an OIDC access token all four metadata fields must be set.', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `Bearer ${part({ alg: 'RS256' })}.${part({ sub: 'x' })}.c2ln`
    const { body } = await uploadBody({ auditKey: token })
    expect(body['tenant']).to.equal('acme')
    for (const field of ['tenant', 'environment', 'clientName', 'clientVersion']) {
      await expectRejected({ auditKey: token }, `presign.${field}`, [field])
    }
  })
})

async function expectRejected(
  presign: object,
  words: string,
  without: readonly string[] = [],
): Promise<void> {
  const fault = await openUploadingLog(presign, without).catch((thrown: unknown) => thrown)
  expect(fault).to.be.instanceOf(AuditError)
  expect(String(fault)).to.include(words)
}

contractSection('2.4', 'Signer interface', ({ holds }) => {
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(3))
  const data = new TextEncoder().encode('data')
  holds('a', '`keyId` identifies the key, and is in every record.', async () => {
    expect(signer.keyId).to.equal(`ed25519:${sha256Hex(signer.publicKey)}`)
    await using rig = await serving()
    const { record } = await rig.call()
    expect(record.key_id).to.match(/^ed25519:[0-9a-f]{64}$/)
  })
  holds('b', '`sign` takes bytes and returns the signature as bytes.', () => {
    const signature = signer.sign(data)
    expect(signature).to.be.instanceOf(Uint8Array).with.length(64)
    expect(signer.sign(new TextEncoder().encode('other'))).to.not.deep.equal(signature)
  })
  holds('c', '`verify` says whether a signature is right.', () => {
    const signature = signer.sign(data)
    expect(signer.verify(data, signature)).to.equal(true)
    expect(signer.verify(new TextEncoder().encode('other'), signature)).to.equal(false)
  })
  holds('d', '`LocalDevSigner.fromKeyRef` builds a signer from `file://<path-to-ed25519-key>`.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope())
    expect(log.signer).to.be.instanceOf(LocalDevSigner)
    expect(isSigned(log.lines(daily)[0] ?? {}, log.signer.publicKey!)).to.equal(true)
    expect(() => LocalDevSigner.fromKeyRef('file:///nowhere/key')).to.throw()
    expect(() => LocalDevSigner.fromKeyRef('/nowhere/key')).to.throw()
  })
  holds('e', '`sha256Hex(data)` is the SHA-256 digest as hex.', () => {
    expect(sha256Hex('abc')).to.equal(hex('abc'))
    expect(sha256Hex(new TextEncoder().encode('abc'))).to.equal(hex('abc'))
  })
  holds('f', '`canonicalize(value)` is deterministic JSON with sorted keys.', () => {
    expect(canonicalize({ b: [1, { d: 1, c: 2 }], a: 'é' })).to.equal('{"a":"é","b":[1,{"c":2,"d":1}]}')
    expect(canonicalize({ x: 1, y: 2 })).to.equal(canonicalize({ y: 2, x: 1 }))
  })
  holds('g', '`toBase64(u8)` encodes as Base64.', () => {
    expect(toBase64(new Uint8Array([255, 254, 253]))).to.equal('//79')
  })
  holds('h', '`fromBase64(b64)` decodes Base64.', () => {
    expect([...fromBase64('//79')]).to.deep.equal([255, 254, 253])
  })
  holds('i', 'The message signed is the bytes of `canonicalize(payload)`.', async () => {
    await using log = await openLog({}, { signer })
    await log.appender.append(envelope())
    const [{ sig, ...unsigned } = { sig: '' }] = log.lines(daily)
    const signature = fromBase64(String(sig).slice('ed25519:'.length))
    const message = new TextEncoder().encode(canonicalize(unsigned))
    expect(signer.verify(message, signature)).to.equal(true)
  })
  holds('j', 'The stored signature is `ed25519:` and the Base64 of the signature bytes.', async () => {
    await using log = await openLog({}, { signer })
    await log.appender.append(envelope())
    const [{ sig, ...unsigned } = { sig: '' }] = log.lines(daily)
    const bytes = signer.sign(new TextEncoder().encode(canonicalize(unsigned)))
    expect(sig).to.equal(`ed25519:${toBase64(bytes)}`)
  })
})
