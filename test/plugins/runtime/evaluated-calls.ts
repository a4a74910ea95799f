// The stages `runtime` and `enforcement` with a runtime over HTTP, for tests that try many calls of several principals.
import { verdict } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { Pipeline } from '@svc/core/pipeline'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { runtimePlugin } from '@svc/plugin-runtime'
import { controlOf, makeCall } from '../../support/call.js'
import { StageRig, served } from '../../support/stage-rig.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import type { RuntimeHandler } from './gateway.js'

export const failureModes = ['deny', 'local', 'allow'] as const

export interface EvaluatedCallsOptions {
  readonly runtime: RuntimeHandler
  readonly failureMode: (typeof failureModes)[number]
  readonly remote?: object
  /** In place of the test's own runtime. */
  readonly endpoint?: string
}

export interface EvaluatedCall {
  readonly isSent: boolean
  /** The code and the reason of a refusal. */
  readonly refusal: string | undefined
  readonly findings: readonly string[]
  readonly elapsedMs: number
}

export class EvaluatedCalls extends StageRig {
  #runtime: TestUpstream | undefined
  #pipeline: Pipeline | undefined

  async begin({ runtime, failureMode, remote, endpoint }: EvaluatedCallsOptions): Promise<this> {
    const server = await startUpstream((call, response) => runtime(response, call, server.calls.length))
    this.#runtime = server
    const section = {
      enforcement: {
        mode: 'remote',
        failureMode,
        remote: {
          endpoint: endpoint ?? `${server.url}/evaluate`,
          includeArguments: true,
          retryBackoffMs: 1,
          ...remote,
        },
      },
    }
    const runtimeStage = await this.start(runtimePlugin, section)
    const enforcement = await this.start(enforcementPlugin, { deny_on: [] })
    const stages = [
      { name: 'runtime', stage: runtimeStage },
      { name: 'enforcement', stage: enforcement },
    ]
    this.#pipeline = new Pipeline(stages, async () => served)
    return this
  }

  /** Requests that the runtime received. */
  get requests(): number {
    return this.#runtime?.calls.length ?? 0
  }

  async call(userId: string, args: JsonObject): Promise<EvaluatedCall> {
    if (this.#pipeline === undefined) throw new Error('begin() comes first')
    const call = makeCall({ caller: { userId }, args })
    const began = performance.now()
    const outcome = await this.#pipeline.run(controlOf(call))
    const elapsedMs = performance.now() - began
    const refusal =
      outcome.kind === 'completed'
        ? undefined
        : outcome.kind === 'denied'
          ? `${outcome.code} ${outcome.denial?.reason}`
          : outcome.code
    const rule = call.get(verdict)
    return {
      isSent: call.sent !== 'no',
      refusal,
      findings: call.findings.map(({ reason }) => `${reason} ${rule?.effectOf(reason) ?? 'reported'}`),
      elapsedMs,
    }
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]()
    await this.#runtime?.[Symbol.asyncDispose]()
  }
}

/** The arguments of the call in an evaluation request. */
export function argumentsOf(body: string): Readonly<Record<string, unknown>> {
  const { input } = JSON.parse(body) as { input: { attributes: { arguments: Record<string, unknown> } } }
  return input.attributes.arguments
}
