// The policy in force, and those that a reload replaced: each stops when its calls have ended. Reloads run one after
// the other, and each is recorded before the policy is in force.

import type { Call, Outcome } from '@svc/core'
import { ActivePolicy } from '../policy/active-policy.js'
import type { Policy } from '../policy/config.js'
import type { KnownTool } from '../policy-tools/diff/known-calls.js'
import type { ChangeSummary } from '../policy-tools/diff/summary.js'
import type { StdioServers } from '../stdio/targets/servers.js'
import type { CallMetrics } from '../telemetry/metrics/gateway-state.js'
import { dispatchFromSlot } from '../upstream/send.js'
import type { GatewayBuilder } from './builder.js'
import { GatewayShadow } from './gateway-shadow.js'
import { type ReloadCause, type ReloadedPolicy, recordRefusal, recordReload } from './reload-records.js'

interface InForce {
  readonly active: ActivePolicy
  readonly policy: Policy
  readonly shadow: GatewayShadow | undefined
}

export class Policies {
  #builder: GatewayBuilder
  #calls: CallMetrics | undefined
  #drainMs: number
  #stdio: StdioServers | undefined
  #current: InForce | undefined
  #targets: Policy['host']['targets'] = {}
  #retiring = new Set<Promise<void>>()
  /** The policies whose calls have not ended. */
  #serving = new Set<ActivePolicy>()
  #reloading: Promise<unknown> = Promise.resolve()
  #knownTools: () => readonly KnownTool[] = () => []

  /** Whether the gateway is shutting down. */
  isDraining = false

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
    return this.#current.active
  }

  /** The calls in progress, those under earlier policies too. */
  *calls(): Iterable<Call> {
    for (const policy of this.#serving) yield* policy.calls()
  }

  /** The text of the policy in force; undefined if it was given in parts. */
  get text(): string | undefined {
    return this.#inForce.policy.texts[0]
  }

  /** The policy in force, as it was loaded. */
  get policy(): Policy {
    return this.#inForce.policy
  }

  /** The shadow policy beside the one in force; undefined if it names none. */
  get shadow(): GatewayShadow | undefined {
    return this.#inForce.shadow
  }

  /** A reload compares the policies on these tools too: lists and calls that operators have seen. */
  compareOn(tools: () => readonly KnownTool[]): void {
    this.#knownTools = tools
  }

  get #inForce() {
    if (this.#current === undefined) throw new Error('the gateway has not started')
    return this.#current
  }

  /** Starts the stages of a policy and puts it in force. Rejects if a stage cannot start. */
  async activate(policy: Policy): Promise<void> {
    const { commit } = await this.#prepare(policy)
    commit()
  }

  async #prepare(policy: Policy) {
    const authorizer = await this.#builder.authorizer(policy)
    const built = this.#builder.build(policy, dispatchFromSlot)
    const { shadow: candidate } = policy.host
    const shadow = candidate && new GatewayShadow(candidate.policy)
    const ended = shadow && ((call: Call, outcome: Outcome) => shadow.offer(call, outcome))
    const next = new ActivePolicy(built, policy.host, { authorizer, calls: this.#calls, ended })
    await built.pipeline.start()
    const stop = async (): Promise<void> => {
      await built.pipeline.stop()
      // A policy that ends keeps its targets until its calls have ended, and then those in force.
      if (this.#retiring.size === 0) await this.#stdio?.keep(this.#targets)
    }
    try {
      await this.#stdio?.add(policy.host.targets, this.#builder.stdioPlace(policy))
    } catch (error) {
      await stop()
      throw error
    }
    const { container } = built
    const commit = (): void => {
      built.takeOver()
      const old = this.#current
      this.#current = { active: next, policy, shadow }
      shadow?.open(this.#builder, policy, built.container)
      this.#serving.add(next)
      this.#targets = policy.host.targets
      if (old !== undefined) this.#retire(old.active, old.shadow)
    }
    return { container, commit, stop }
  }

  /**
   * Loads the policy that `read` returns, and puts it in force, after earlier reloads. Rejects as `activate` does, with `PolicyError`, or with
   * `Refusal` (`AUDIT_UNAVAILABLE`).
   */
  reload(
    read: () => string | Record<string, unknown>,
    cause: ReloadCause,
  ): Promise<{ policy: Policy; change: ReloadedPolicy }> {
    const reloading = this.#reloading.then(async () => {
      try {
        const policy = await this.#builder.policyFrom(read())
        const { container, commit, stop } = await this.#prepare(policy)
        try {
          const { policy: old } = this.#inForce
          const change: ReloadedPolicy = {
            policy_sha256: policy.sha256,
            previous_sha256: old.sha256,
            by: cause.by,
            ...(await this.#summaryOf(old, policy)),
          }
          await recordReload(container, change, cause)
          commit()
          return { policy, change }
        } catch (error) {
          await stop()
          throw error
        }
      } catch (error) {
        await this.#recordRefusal(error, cause)
        throw error
      }
    })
    // The caller gets the error; the next reload ignores it.
    this.#reloading = reloading.catch(() => undefined)
    return reloading
  }

  /** The comparison decides nothing, so that its error does not refuse the policy. */
  async #summaryOf(old: Policy, policy: Policy): Promise<Partial<ChangeSummary>> {
    try {
      const { summarizeChanges } = await import('../policy-tools/diff/summary.js')
      return await summarizeChanges(old, policy, this.#builder.placeOf(policy.host), this.#knownTools())
    } catch (err) {
      this.#builder.logger.error({ err }, 'the new policy was not compared with the old one')
      return {}
    }
  }

  /** Records that the policy in force stays. Never rejects. */
  async #recordRefusal(error: unknown, cause: ReloadCause): Promise<void> {
    try {
      await recordRefusal(this.current.container, error, cause)
    } catch (err) {
      // The policy in force stays in any case.
      this.#builder.logger.error({ err }, 'the refusal of a policy could not be recorded')
    }
  }

  /** Does not wait: a reload is done when the new policy serves. */
  #retire(old: ActivePolicy, shadow: GatewayShadow | undefined): void {
    // A call that waits for a person must not be sent under a policy that is no longer in force.
    old.endWaits()
    const retiring = old
      .drain(this.#drainMs)
      // Before the log, in which it records.
      .then(() => shadow?.close())
      .then(() => Promise.all([old.pipeline.stop(), this.#stdio?.keep(this.#targets)]))
      .then(() => undefined)
      .catch((err: unknown) => this.#builder.logger.error({ err }, 'the old policy did not stop cleanly'))
      .finally(() => {
        this.#serving.delete(old)
        this.#retiring.delete(retiring)
      })
    this.#retiring.add(retiring)
  }

  /** Resolves when the reloads and the calls of all policies have ended. */
  async drain(): Promise<void> {
    await this.#reloading
    const current = this.#current?.active
    current?.endStreams()
    await Promise.all([...this.#retiring, current?.drain(this.#drainMs)])
  }

  async stop(): Promise<void> {
    const current = this.#current
    await current?.shadow?.close()
    this.#current = undefined
    await current?.active.pipeline.stop()
  }
}
