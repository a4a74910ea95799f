// The pipeline without the HTTP server, for programs that call tools themselves.
import { bindDefault, type Outcome, type Plugin, resolve, tokens } from '@svc/core'
import type { CallControl, Dispatch } from '@svc/core/pipeline'
import type { DependencyContainer } from 'tsyringe'
import { GatewayBuilder, withoutListener } from '../gateway/builder.js'
import type { GatewaySettings, PipelineOptions } from '../gateway/options.js'
import { Policies } from '../gateway/policies.js'
import { AnnotationCache } from '../mcp/learned-values.js'
import { SharedState } from '../mcp/shared-state.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { limitOutcome } from '../upstream/response-limits.js'
import { dispatcher } from '../upstream/send.js'
import { callOf, type ToolCall } from './tool-call.js'

/** A pipeline without a server. */
export interface EmbeddedPipeline {
  /** Opens keys, logs and stores. Rejects when one cannot be opened. May be called more than once. */
  ready(): Promise<void>
  /**
   * Runs one call, and opens the pipeline first if that has not been done. `forward` sends the call, at most once, and
   * only if every stage lets it pass. It must `await call.commitHolds()` directly before it sends, and return the
   * result, if there is one. From then on the call may have been sent: if `forward` completes, it was; if it fails, it
   * may say `call.markSent('no')`. With a broker, the header in `call.get(credential)` goes with the request.
   */
  run(call: CallControl | ToolCall, forward: Dispatch): Promise<Outcome>
  /**
   * Puts a new policy (YAML text or an object) in force for the calls that follow. Rejects with `PolicyError`, and the
   * old policy stays.
   */
  reload(policy: string | Record<string, unknown>): Promise<void>
  /** Waits for calls in flight, then closes keys, logs and stores. May be called more than once. */
  close(): Promise<void>
  /** The bindings of code and, once the pipeline is ready, what runs. */
  readonly container: DependencyContainer
}

/**
 * Throws `PolicyError` like `startGatewayServer`; custom plugin modules are imported by `ready()`. `port` and `targets`
 * have no meaning here and may be left out.
 */
export function createPipeline<const Plugins extends readonly Plugin[] = readonly []>(
  config: PipelineOptions<Plugins>,
): EmbeddedPipeline
export function createPipeline(config: GatewaySettings): EmbeddedPipeline {
  return new InProcessPipeline(config)
}

export class InProcessPipeline implements EmbeddedPipeline {
  readonly container: DependencyContainer
  /** Runs before the pipeline closes. */
  onClose: (() => Promise<void>) | undefined
  /** The bindings and the host's part of the policy, for the code that uses this class. */
  readonly builder: GatewayBuilder
  /** The state of the MCP servers that are governed by this pipeline. */
  readonly state: SharedState
  /** The annotations of their tools. */
  readonly annotations: AnnotationCache
  #policies: Promise<Policies> | undefined
  #running: Policies | undefined
  #closing: Promise<void> | undefined

  constructor(config: GatewaySettings) {
    this.builder = new GatewayBuilder({ port: 0, targets: {}, ...config }, withoutListener('program'))
    this.container = this.builder.container
    const { bindings, logger } = this.builder
    const clock = resolve(bindings, tokens.Clock)
    this.state = new SharedState(() => undefined, clock, logger)
    this.annotations = new AnnotationCache(this.state, clock, (server) => addressInProcess(server).href)
    bindDefault(bindings, tokens.ToolAnnotations, { useValue: this.annotations })
  }

  async ready(): Promise<void> {
    await this.#start()
  }

  async run(toolCall: CallControl | ToolCall, forward: Dispatch): Promise<Outcome> {
    const { current } = await this.#start()
    const call = callOf(toolCall, resolve(this.container, tokens.Ids), resolve(this.container, tokens.Clock))
    call.set(dispatcher, {
      dispatch: async (running) => limitOutcome(await forward(running), current.maxResponseBytes),
    })
    return current.run(call)
  }

  /** The policy in force; to be read once a call has run. */
  get current(): ActivePolicy {
    if (this.#running === undefined) throw new Error('the pipeline has not started')
    return this.#running.current
  }

  get isClosing(): boolean {
    return this.#closing !== undefined
  }

  async reload(policy: string | Record<string, unknown>): Promise<void> {
    const policies = await this.#start()
    await policies.reload(() => policy, { by: 'code' })
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #start(): Promise<Policies> {
    if (this.#closing !== undefined) return Promise.reject(new Error('the pipeline is closed'))
    this.#policies ??= this.#open()
    return this.#policies
  }

  async #open(): Promise<Policies> {
    const policy = await this.builder.policy()
    const policies = new Policies(this.builder, policy.host.server.drainMs, undefined)
    await policies.activate(policy)
    this.#running = policies
    return policies
  }

  async #close(): Promise<void> {
    try {
      // A pipeline that did not start has nothing to close. Its error is not lost: ready() and run() reject with it.
      const policies = await this.#policies?.catch(() => undefined)
      await this.onClose?.()
      await policies?.drain()
      await policies?.stop()
    } finally {
      await this.builder.close()
    }
  }
}

/** The address of a governed MCP server, by its segment in references, before which "~" keeps ".." a name; nothing is sent there. */
export function addressInProcess(server: string): URL {
  return new URL(`http://in-process.invalid/~${server}`)
}
