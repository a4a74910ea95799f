// Runs a call through a gateway with a custom stage at each position, and compares what the upstream, the record, the
// counts and the client say about it.
import { request as httpRequest } from 'node:http'
import type { Call, Next, Outcome, Plugin, QuotaAdapter } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { definePlugin } from 'svc-sdk/core'
import { z } from 'zod'
import { recordingTo, startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'
import { behaviours, endless, REASON, reportings } from './behaviours.js'

/** The stage directly before which the probe stands, by its phase. */
const positions = {
  authn: 'redaction',
  entitlements: 'authentication',
  security: 'authorization',
  enforcement: 'evaluation',
  dedupe: 'decision',
  quotas: 'idempotency',
  brokers: 'metering',
} as const
const modes = ['enforce', 'observe', 'deny_on others'] as const
const responses = ['ok', 'error', 'reset', 'stream', 'broken stream'] as const

export interface Case {
  readonly position: keyof typeof positions
  readonly mode: (typeof modes)[number]
  readonly response: (typeof responses)[number]
  readonly reporting: string
  readonly behaviour: string
}

/** Every case of these behaviours, in a fixed order. */
export function allCases(names: Iterable<string> = behaviours.keys()): Case[] {
  const cases: Case[] = []
  for (const behaviour of names)
    for (const reporting of Object.keys(reportings))
      for (const position of Object.keys(positions) as (keyof typeof positions)[])
        for (const mode of modes)
          for (const response of responses) cases.push({ position, mode, response, reporting, behaviour })
  return cases
}

interface Reply {
  readonly status: number
  readonly body: Buffer
  /** False if the connection ended before the body. */
  readonly isWhole: boolean
}

/** A case and its results. */
interface Trial {
  readonly tool: string
  readonly trial: Case
  /** Runs the late actions of the stage after the call has ended. */
  readonly late: (() => unknown)[]
}

class CountingAdapter implements QuotaAdapter {
  readonly counts = new Map<string, number>()

  async incrDaily(_tenant: string, tool: string, _limit: number) {
    return { count: this.#add(tool, 1), resetAt: Date.now() + 60_000 }
  }

  async takeToken() {
    return { tokens: 1, resetAt: Date.now() + 1000 }
  }

  async refundDaily(_tenant: string, tool: string): Promise<void> {
    this.#add(tool, -1)
  }

  #add(tool: string, by: number): number {
    const count = (this.counts.get(tool) ?? 0) + by
    this.counts.set(tool, count)
    return count
  }
}

/** After this many milliseconds the caller of an endless call leaves. */
const LEAVES_MS = 200

export class StagesExperiment implements AsyncDisposable {
  readonly #records = new Map<string, AuditEnvelope[]>()
  readonly #executed = new Map<string, number>()
  readonly #quotas = new CountingAdapter()
  readonly #trials = new Map<string, Trial>()
  readonly #gateways = new Map<string, TestGateway>()
  #upstream: TestUpstream | undefined
  #tools = 0

  async start(): Promise<this> {
    this.#upstream = await startUpstream((call, response) => {
      const tool = toolOf(call)
      this.#executed.set(tool, (this.#executed.get(tool) ?? 0) + 1)
      const { trial } = this.#trials.get(tool) ?? {}
      const kind = trial?.response ?? 'ok'
      if (kind === 'reset') response.destroy()
      else if (kind === 'stream' || kind === 'broken stream') {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
        setImmediate(() => (kind === 'stream' ? response.end('data: 2\n\n') : response.destroy()))
      } else {
        response.writeHead(kind === 'ok' ? 200 : 500, { 'content-type': 'application/json' })
        response.end(call.body)
      }
    })
    for (const mode of modes) this.#gateways.set(mode, await this.#gateway(mode, this.#upstream.url))
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const gateway of this.#gateways.values()) await gateway[Symbol.asyncDispose]()
    await this.#upstream?.[Symbol.asyncDispose]()
  }

  /** Runs the case, then the same call with a stage that passes it on. Resolves with what is wrong. */
  async wrongOf(trial: Case): Promise<string[]> {
    const tool = `tool${this.#tools++}`
    const late: (() => unknown)[] = []
    this.#trials.set(tool, { tool, trial, late })
    const isEndless = endless.has(trial.behaviour)
    const reply = await this.#post(trial, tool, isEndless ? LEAVES_MS : 5000)
    if (isEndless) await this.#recorded(tool)
    await new Promise(setImmediate)
    // An error in a late action concerns only the stage.
    for (const work of late)
      await Promise.resolve()
        .then(work)
        .catch(() => undefined)
    await new Promise(setImmediate)
    const executed = this.#executed.get(tool) ?? 0
    const records = this.#records.get(tool) ?? []
    const count = this.#quotas.counts.get(`mcp://files/${tool}`) ?? 0
    const wrong = [...compare(trial, reply, executed, records, count)]
    this.#trials.delete(tool)
    const again = await this.#post(trial, tool, 5000)
    const total = this.#executed.get(tool) ?? 0
    if (executed > 0 && total > executed) wrong.push('a repetition of the key was sent again')
    if (executed === 0 && total === 0)
      wrong.push(`the key of a call that was not sent is not free (${again?.status})`)
    return wrong
  }

  #gateway(mode: Case['mode'], upstream: string): Promise<TestGateway> {
    const probes = Object.keys(positions).map((position) => this.#probe(position as keyof typeof positions))
    const { audit, configure } = recordingTo({
      append: async (record: AuditEnvelope) => {
        const [tool = ''] = record.tool.split('@')
        this.#records.set(tool, [...(this.#records.get(tool) ?? []), record])
      },
    })
    const enforcement = { mode: mode === 'observe' ? 'observe' : 'enforce' } as const
    return startTestGateway({
      audit,
      configure,
      targets: { files: upstream },
      plugins: probes,
      ...Object.fromEntries(probes.map(({ name }) => [name, {}])),
      quotas: { adapter: this.#quotas },
      entitlements: {
        default_plan: 'all',
        plans: { all: { allowlist: ['*'], calls_per_day: 1000 } },
        tenants: {},
      },
      security: { limits: { max_payload_kb: 64, max_duration_ms: 60_000 } },
      enforcement:
        mode === 'deny_on others' ? { ...enforcement, deny_on: ['egress_violation'] } : enforcement,
      dedupe: {},
      brokers: {},
    })
  }

  #probe(position: keyof typeof positions): Plugin {
    const handle = (call: Call, next: Next): unknown => {
      const one = this.#trials.get(call.target.tool)
      if (one === undefined || one.trial.position !== position) return next()
      const late = (work: () => unknown): void => {
        one.late.push(work)
      }
      const passing = reportings[one.trial.reporting]?.(call, next, late) ?? next
      const behaviour = behaviours.get(one.trial.behaviour) ?? endless.get(one.trial.behaviour)
      return behaviour?.(call, passing, late)
    }
    return definePlugin({
      name: `probe_${position}`,
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}),
      phase: positions[position],
      create: () => ({ handle: handle as (call: Call, next: Next) => Outcome }),
    })
  }

  /** The time limits of the pipeline are real ones here. */
  async #recorded(tool: string): Promise<void> {
    const end = Date.now() + 30_000
    while (!this.#records.has(tool) && Date.now() < end) await new Promise((done) => setTimeout(done, 100))
  }

  #post({ mode }: Case, tool: string, timeout: number): Promise<Reply | undefined> {
    const body = '{"amount":1}'
    return new Promise((resolve) => {
      const sending = httpRequest(this.#gateways.get(mode)?.url ?? '', {
        method: 'POST',
        path: `/mcp/files/${tool}@1.0.0`,
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'idempotency-key': tool,
        },
        timeout,
      })
      sending.once('timeout', () => sending.destroy())
      sending.once('error', () => resolve(undefined))
      sending.once('response', (message) => {
        const pieces: Buffer[] = []
        message.on('data', (piece: Buffer) => pieces.push(piece))
        message.once('close', () =>
          resolve({
            status: message.statusCode ?? 0,
            body: Buffer.concat(pieces),
            isWhole: message.complete,
          }),
        )
        message.on('error', () => undefined)
      })
      sending.end(body)
    })
  }
}

function toolOf({ path }: UpstreamCall): string {
  return path.slice('/invoke/'.length).split('@')[0] ?? ''
}

/** The differences between upstream, record, counts and client. */
function* compare(
  { position, reporting, mode, behaviour }: Case,
  reply: Reply | undefined,
  executed: number,
  records: readonly AuditEnvelope[],
  count: number,
): Generator<string> {
  if (executed > 1) yield `sent ${executed} times`
  if (records.length !== 1) yield `${records.length} records`
  if (count !== executed) yield `executed ${executed} times and counted ${count} times`
  if (reply === undefined && !endless.has(behaviour)) yield 'the client got no response'
  const [record] = records
  if (reply === undefined || record === undefined) return
  const isOk = reply.isWhole && reply.status < 400
  const { status, policy, findings = [], sent } = record
  if (sent === undefined) yield 'the record does not say whether it was sent'
  else if ((sent !== 'no') !== executed > 0) yield `executed ${executed} times and recorded as sent: ${sent}`
  const told = reply.status >= 400 ? sentIn(reply.body) : undefined
  if (told !== undefined && (told !== false) !== executed > 0)
    yield `executed ${executed} times and told sent: ${told}`
  if (isOk !== (status === 'ok'))
    yield `the client got ${reply.status}, whole: ${reply.isWhole}, and the record says ${status}`
  if (isOk && record.output_sha256 !== sha256Hex(reply.body)) yield 'the record has the hash of another body'
  if (isOk && policy.decision === 'deny') yield 'the client got a response and the record says deny'
  const found = findings.filter(({ reason }) => reason === REASON)
  if (isOk && found.some(({ effect }) => effect === 'deny' || effect === 'escalate')) {
    yield 'a finding is recorded as denying a call that passed'
  }
  if (mode === 'observe' && found.some(({ effect }) => effect === 'deny'))
    yield 'a finding denied in observe mode'
  const denies = reporting === 'before next, to deny' || reporting === 'before next'
  const isDecided = mode === 'enforce' || (mode !== 'observe' && reporting === 'before next, to deny')
  if (denies && isDecided && executed > 0) yield 'a call was sent although a finding denies it'
  // A stage may respond to the call itself before there is a verdict.
  const respondsFirst =
    behaviour.startsWith('returns a response') && !['dedupe', 'quotas', 'brokers'].includes(position)
  if (denies && isDecided && isOk && !respondsFirst) yield 'a call passed although a finding denies it'
}

function sentIn(body: Buffer): unknown {
  try {
    return (JSON.parse(body.toString()) as { sent?: unknown }).sent
  } catch {
    return undefined
  }
}
