// The policy in force, and those that a reload replaced: each stops when its calls have ended. Reloads run one after
// the other.
import type { CallMetrics } from '../metrics/call-metrics.js'
import { ActivePolicy } from '../policy/active-policy.js'
import type { HostConfig } from '../policy/config.js'
import type { StdioServers } from '../stdio-targets/servers.js'
import { dispatchFromSlot } from '../upstream/dispatch-slot.js'
import type { GatewayBuilder, Policy } from './builder.js'

export class Policies {
  #builder: GatewayBuilder
  #calls: CallMetrics | undefined
  #drainMs: number
  #stdio: StdioServers | undefined
  #current: ActivePolicy | undefined
  #targets: HostConfig['targets'] = {}
  #retiring = new Set<Promise<void>>()
  #reloading: Promise<unknown> = Promise.resolve()

  /** `drainMs`: time for the calls of a replaced policy to end; `stdio` runs the targets that are commands. */
  constructor(
    builder: GatewayBuilder,
    drainMs: number,
    calls: CallMetrics | undefined,
    stdio?: StdioServers,
  ) {
    this.#builder = builder
    this.#stdio = stdio
    this.#drainMs = drainMs
    this.#calls = calls
  }

  get current(): ActivePolicy {
    if (this.#current === undefined) throw new Error('the gateway has not started')
    return this.#current
  }

  /** Starts the stages of a policy and puts it in force. Rejects if a stage cannot start; the old policy stays. */
  async activate(policy: Policy): Promise<void> {
    const authorizer = await this.#builder.authorizer(policy)
    const built = this.#builder.build(policy, dispatchFromSlot)
    const next = new ActivePolicy(built, policy.host, { authorizer, calls: this.#calls })
    await built.pipeline.start()
    await this.#stdio?.add(policy.host.targets, this.#builder.stdioPlace(policy))
    built.takeOver()
    const old = this.#current
    this.#current = next
    this.#targets = policy.host.targets
    if (old !== undefined) this.#retire(old)
  }

  /** Loads a policy and puts it in force, after earlier reloads. Rejects as `activate` does, or with `PolicyError`. */
  reload(source: string | Record<string, unknown>): Promise<Policy> {
    const reloading = this.#reloading.then(async () => {
      const policy = await this.#builder.policyFrom(source)
      await this.activate(policy)
      return policy
    })
    // The caller gets the error; the next reload ignores it.
    this.#reloading = reloading.catch(() => undefined)
    return reloading
  }

  /** Does not wait: a reload is done when the new policy serves. */
  #retire(old: ActivePolicy): void {
    // A call that waits for a person must not be sent under a policy that is no longer in force.
    old.endWaits()
    const retiring = old
      .drain(this.#drainMs)
      .then(() => Promise.all([old.pipeline.stop(), this.#stdio?.keep(this.#targets)]))
      .then(() => undefined)
      .catch((err: unknown) => this.#builder.logger.error({ err }, 'the old policy did not stop cleanly'))
      .finally(() => this.#retiring.delete(retiring))
    this.#retiring.add(retiring)
  }

  /** Resolves when the reloads and the calls of all policies have ended. */
  async drain(): Promise<void> {
    await this.#reloading
    this.#current?.endStreams()
    await Promise.all([...this.#retiring, this.#current?.drain(this.#drainMs)])
  }

  async stop(): Promise<void> {
    const current = this.#current
    this.#current = undefined
    await current?.pipeline.stop()
  }
}
