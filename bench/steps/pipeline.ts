// The cost of each stage, measured by probes: custom stages between the built-in ones that read the clock when a call
// enters and leaves. The log is a stub and calls run one at a time, so elapsed time is CPU time.
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { createPipeline, type EmbeddedPipeline } from 'svc-sdk'
import { bind, Call, definePlugin, type Outcome, type Stage, tokens } from 'svc-sdk/core'
import { canonicalize } from 'svc-sdk/core/json'
import { z } from 'zod'
import { ARGUMENTS, SERVER, TOOL, VERSION } from '../gateway/requests.js'
import { quantile } from '../measure/statistics.js'
import type { Step } from './step.js'

const CALLS = 6_000
const STAGES = ['authn', 'entitlements', 'security', 'enforcement', 'quotas'] as const
const SPAN_ID = 'b7ad6b7169203331'

class Probe implements Stage {
  entered = 0
  left = 0

  async handle(_call: Call, next: () => Promise<Outcome>): Promise<Outcome> {
    this.entered = performance.now()
    const outcome = await next()
    this.left = performance.now()
    return outcome
  }
}

export class PipelineProbe {
  /** The record of a call of the benchmarks. */
  envelope: AuditEnvelope | undefined
  readonly #pipeline: EmbeddedPipeline
  readonly #tokens: readonly string[]
  readonly #probes: readonly Probe[]

  /** `policy` is the JSON of the benchmarks' policy. */
  constructor(policy: string, bearerTokens: readonly string[]) {
    this.#tokens = bearerTokens
    // The last two are adjacent: their difference is the cost of a probe.
    this.#probes = [...STAGES, 'none', 'none'].map(() => new Probe())
    const order = ['audit', ...this.#probes.flatMap((_, i) => [`probe${i}`, ...STAGES.slice(i, i + 1)])]
    this.#pipeline = createPipeline({
      policyObject: { ...JSON.parse(policy), pipeline: order },
      plugins: this.#probes.map((probe, i) =>
        definePlugin({
          name: `probe${i}`,
          version: '0.1.0',
          core: '^1.0.0',
          schema: z.strictObject({}),
          presence: 'always',
          create: () => probe,
        }),
      ),
      configure: (container) => {
        bind(container, tokens.SvcAppender, {
          useValue: {
            append: (envelope: object) => {
              this.envelope = envelope as AuditEnvelope
              return Promise.resolve()
            },
          },
        })
      },
    })
  }

  start(): Promise<void> {
    return this.#pipeline.ready()
  }

  stop(): Promise<void> {
    return this.#pipeline.close()
  }

  async steps(): Promise<Step[]> {
    const last = this.#probes.length - 1
    const samples = new Map<string, number[]>()
    const add = (name: string, milliseconds: number) => {
      const of = samples.get(name) ?? []
      samples.set(name, of)
      of.push(milliseconds * 1000)
    }
    for (let i = 0; i < CALLS; i++) {
      const call = this.#call(i)
      const start = performance.now()
      const outcome = await this.#pipeline.run(call, answer)
      const end = performance.now()
      if (outcome.kind !== 'completed') throw new Error(`not served: ${outcome.code} ${outcome.message}`)
      const [first] = this.#probes
      if (first === undefined) continue
      add('audit', first.entered - start + end - first.left)
      for (const [j, outer] of this.#probes.entries()) {
        const inner = this.#probes[j + 1]
        if (inner === undefined) continue
        const name = j === last - 1 ? 'probe' : (STAGES[j] ?? 'probe')
        add(name, inner.entered - outer.entered + outer.left - inner.left)
      }
    }
    const price = (name: string) => quantile(samples.get(name) ?? [], 0.5)
    const probe = price('probe')
    return [
      ...STAGES.map((name) => ({ name, micros: Math.max(0, price(name) - probe) })),
      { name: 'audit: pipeline, settlement, envelope', micros: Math.max(0, price('audit') - probe) },
    ]
  }

  #call(i: number): Call {
    const reference = `mcp://${SERVER}/${TOOL}@${VERSION}`
    const canonicalArgs = canonicalize(ARGUMENTS)
    return new Call({
      protocol: 'invoke',
      headers: { authorization: `Bearer ${this.#tokens[i % this.#tokens.length]}` },
      trace: {
        traceId: `4bf92f3577b34da6a3ce929d${String(i).padStart(8, '0')}`,
        spanId: SPAN_ID,
        flags: '01',
        state: null,
        causeTraceId: null,
        causeSpanId: null,
      },
      agent: { nodeId: null, agentRef: null, parentRef: null, variables: null, metadata: null },
      target: {
        server: SERVER,
        serverVersion: VERSION,
        tool: TOOL,
        toolVersion: VERSION,
        mcpMethod: null,
      },
      receivedAt: Date.now(),
      read: () => ({
        kind: 'tool',
        method: null,
        server: SERVER,
        name: TOOL,
        version: VERSION,
        reference,
        args: ARGUMENTS,
        canonicalArgs,
        bytes: canonicalArgs.length,
        idempotencyKey: null,
      }),
    })
  }
}

const BODY = Buffer.alloc(300, 0x61)

async function answer(): Promise<Outcome> {
  return { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: BODY }
}
