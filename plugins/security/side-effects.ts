// Requires an idempotency key for calls with side effects, so that a retry can be distinguished from a second call.
import { type CallRequest, type Finding, isSideEffecting, type SideEffectKnowledge } from '@svc/core'
import { finding } from './findings.js'

export class SideEffectRule {
  readonly knowledge: SideEffectKnowledge
  #isKeyRequired: boolean

  constructor(knowledge: SideEffectKnowledge, isKeyRequired: boolean) {
    this.knowledge = knowledge
    this.#isKeyRequired = isKeyRequired
  }

  check(request: CallRequest): Finding | undefined {
    if (!this.#isKeyRequired || request.idempotencyKey !== null) return undefined
    if (!isSideEffecting(request, this.knowledge)) return undefined
    return finding(
      'missing_idempotency_for_side_effect',
      `${request.reference} may have side effects, and the call has no idempotency key`,
    )
  }

  /** The description for `svc policy explain`. */
  describe(request: CallRequest): string {
    const { kind, reference, readings } = request
    if (kind !== 'tool') return 'side_effects: applies only to tools'
    const { policy, annotations } = this.knowledge
    const effects = isSideEffecting(request, this.knowledge) ? 'may have side effects' : 'has no side effects'
    const isInPolicy = policy?.(readings) !== undefined
    const isAnnotated = !isInPolicy && annotations?.(reference) !== undefined
    const source = isInPolicy
      ? 'side_effects.tools'
      : isAnnotated
        ? "its server's annotations"
        : 'its name and its argument "method"'
    const key = this.#isKeyRequired ? 'then a key is required' : 'no key is required'
    return `side_effects: the call ${effects}, according to ${source}; ${key}`
  }
}
