// The pipeline without the HTTP server, for programs that embed it.
import { Call, callRequest, isCall, type Outcome, resolve, tokens } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { Dispatch, Pipeline } from '@svc/core/pipeline'
import type { DependencyContainer } from 'tsyringe'
import { GatewayBuilder } from './gateway/builder.js'
import type { GatewayOptions } from './gateway/options.js'
import { agentOf, idempotencyKeyOf, traceOf } from './http/call-headers.js'
import { dispatch, dispatchFromSlot } from './upstream/dispatch-slot.js'

/** A tool call as plain facts. */
export interface ToolCall {
  readonly server: string
  readonly tool: string
  readonly version?: string
  readonly args: JsonObject
  /** Request headers, names in lower case: token, tenant, agent, trace and idempotency headers are read. */
  readonly headers?: Record<string, string>
}

export interface EmbeddedPipeline {
  /** Opens keys, logs and stores. */
  start(): Promise<void>
  /**
   * Runs one call; `forward` sends it, at most once, and only when every stage lets it pass. It must
   * `await call.commitHolds()` directly before it sends, and return what that gives, if anything. Where a
   * broker is configured, the header in `call.get(credential)` goes with the request.
   */
  run(call: Call | ToolCall, forward: Dispatch): Promise<Outcome>
  /** Closes the keys, logs and stores that `start` opened. */
  stop(): Promise<void>
  readonly container: DependencyContainer
}

/** Throws `PolicyError` like `startGatewayServer`; custom plugin modules are imported by `start()`. */
export function createPipeline(config: GatewayOptions): EmbeddedPipeline {
  const builder = new GatewayBuilder(config)
  const { container } = builder
  let pipeline: Promise<Pipeline> | undefined
  return {
    container,
    async start() {
      pipeline ??= build(builder)
      await (await pipeline).start()
    },
    async run(call, forward) {
      if (pipeline === undefined) throw new Error('the pipeline has not started')
      const running = isCall(call) ? call : callOf(call, container)
      running.set(dispatch, forward)
      return (await pipeline).run(running)
    },
    async stop() {
      try {
        await (await pipeline)?.stop()
      } finally {
        await builder.close()
      }
    },
  }
}

async function build(builder: GatewayBuilder): Promise<Pipeline> {
  const { pipeline, takeOver } = builder.build(await builder.policy(), dispatchFromSlot)
  takeOver()
  return pipeline
}

/** Throws what `callRequest` throws for names and arguments that have no canonical form. */
function callOf(toolCall: ToolCall, container: DependencyContainer): Call {
  const { server, tool, version = 'unversioned', args, headers = {} } = toolCall
  const named = { kind: 'tool', method: null, server, name: tool, version } as const
  const request = callRequest({ ...named, args, idempotencyKey: null })
  const { agent, refusal } = agentOf(headers)
  return new Call({
    protocol: 'invoke',
    headers,
    trace: traceOf(headers, resolve(container, tokens.Ids)),
    agent,
    target: { server, serverVersion: version, tool, toolVersion: version, mcpMethod: null },
    receivedAt: resolve(container, tokens.Clock).now(),
    read: () => {
      if (refusal !== undefined) throw refusal
      return { ...request, idempotencyKey: idempotencyKeyOf(headers) }
    },
  })
}
