// Runs the shadow policy that a policy names, from when that is in force until it is replaced.
import { resolve as resolvePath } from 'node:path'
import { type Call, type Outcome, resolve, resolveOptional, services, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import type { Policy } from '../policy/config.js'
import { readPolicyText } from '../policy/policy-text.js'
import type { ShadowReport } from '../policy-tools/shadow/differences.js'
import type { Shadow } from '../policy-tools/shadow/shadow.js'
import type { GatewayBuilder } from './builder.js'

/** `error`: why the candidate judges nothing. */
export type ShadowStatus =
  | { readonly policy: string; readonly error: string }
  | ({ readonly policy: string } & ShadowReport)

export class GatewayShadow {
  readonly #file: string
  #shadow: Shadow | undefined
  #error = 'the shadow policy is being loaded'
  #opening: Promise<void> = Promise.resolve()

  constructor(file: string) {
    this.#file = file
  }

  /** An error is reported and goes no further. `container` has the bindings of the policy in force. */
  open(builder: GatewayBuilder, policy: Policy, container: DependencyContainer): void {
    this.#opening = this.#open(builder, policy, container).catch((error: unknown) => {
      this.#error = messageOf(error)
      builder.logger.warn({ file: this.#file, reason: this.#error }, 'the shadow policy is not used')
    })
  }

  offer(call: Call, outcome: Outcome): void {
    this.#shadow?.offer(call, outcome)
  }

  get status(): ShadowStatus {
    const policy = this.#file
    return this.#shadow === undefined ? { policy, error: this.#error } : { policy, ...this.#shadow.status }
  }

  async close(): Promise<void> {
    await this.#opening
    await this.#shadow?.close()
  }

  async #open(builder: GatewayBuilder, { host }: Policy, container: DependencyContainer): Promise<void> {
    // Loaded here, as few policies have one.
    const { openCandidate } = await import('./shadow-candidate.js')
    const { Shadow } = await import('../policy-tools/shadow/shadow.js')
    const place = builder.placeOf(host)
    const file = resolvePath(place.baseDir, this.#file)
    const candidate = await openCandidate(await builder.policyFrom(readPolicyText(file), file), place)
    const meter = resolve(container, tokens.Meter)
    this.#shadow = new Shadow(candidate, {
      clock: resolve(container, tokens.Clock),
      logger: builder.logger,
      maxShare: host.shadow?.max_share ?? 0,
      count: (result) => meter.count(`svc_shadow_${result}_total`),
      report: async (report) => {
        await resolveOptional(
          container,
          services.record,
        )?.({
          name: 'policy/shadow',
          traceId: resolve(container, tokens.Ids).traceId(),
          decision: 'allow',
          findings: [{ reason: 'shadow_differs', stage: 'gateway', effect: 'reported' }],
          facts: { ...report, differences: report.differences.map((one) => ({ ...one })) },
        })
      },
    })
  }
}
