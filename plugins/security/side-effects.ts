// Calls that may change something must carry an idempotency key, so that a repeat of one can be told from a second.
import { type CallRequest, type Finding, isSideEffecting, type SideEffectKnowledge } from '@svc/core'
import { finding } from './findings.js'

export class SideEffectRule {
  readonly knowledge: SideEffectKnowledge
  #isKeyRequired: boolean

  constructor(knowledge: SideEffectKnowledge, isKeyRequired: boolean) {
    this.knowledge = knowledge
    this.#isKeyRequired = isKeyRequired
  }

  judge(request: CallRequest): Finding | undefined {
    if (!this.#isKeyRequired || request.idempotencyKey !== null) return undefined
    if (!isSideEffecting(request, this.knowledge)) return undefined
    return finding(
      'missing_idempotency_for_side_effect',
      `${request.reference} may change something, and the call carries no idempotency key`,
    )
  }

  /** For `svc policy explain`. */
  inWords(request: CallRequest): string {
    const { kind, reference } = request
    if (kind !== 'tool') return 'side_effects: only tools have any'
    const { policy, annotations } = this.knowledge
    const may = isSideEffecting(request, this.knowledge) ? 'may change something' : 'changes nothing'
    const isInPolicy = policy?.(reference) !== undefined
    const isAnnotated = !isInPolicy && annotations?.(reference) !== undefined
    const by = isInPolicy
      ? 'by side_effects.tools'
      : isAnnotated
        ? "by its server's annotations"
        : 'by its name and its argument "method"'
    const key = this.#isKeyRequired ? 'a side-effecting call must carry a key' : 'no key is required'
    return `side_effects: the call ${may}, ${by}; ${key}`
  }
}
