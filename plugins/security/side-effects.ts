// Requires an idempotency key for calls with side effects, so that a retry can be distinguished from a second call.
import {
  type CallRequest,
  type Finding,
  isSideEffecting,
  type SideEffectKnowledge,
  sideEffectSource,
  sideEffectsOf,
} from '@svc/core'
import { compilePatternMap, type PatternMatches } from '@svc/core/match'
import { finding } from './findings.js'

const none: readonly Finding[] = []

export class SideEffectRule {
  readonly knowledge: SideEffectKnowledge
  #isKeyRequired: boolean

  constructor(knowledge: SideEffectKnowledge, isKeyRequired: boolean) {
    this.knowledge = knowledge
    this.#isKeyRequired = isKeyRequired
  }

  check(request: CallRequest): readonly Finding[] {
    if (!this.#isKeyRequired || request.idempotencyKey !== null) return none
    if (!isSideEffecting(request, this.knowledge)) return none
    const detail = `${request.reference} may have side effects, and the call has no idempotency key`
    return [finding('missing_idempotency_for_side_effect', detail)]
  }

  /** The description for `svc policy explain`. */
  describe(request: CallRequest): string {
    if (request.kind !== 'tool') return 'side_effects: applies only to tools'
    const effects = sideEffectsOf(request, this.knowledge)
    const key = this.#isKeyRequired ? 'then a key is required' : 'no key is required'
    if (effects === 'unknown') {
      const counted = this.knowledge.unknown ?? 'harmless'
      return `side_effects: it is unknown whether the call has side effects, as neither the policy, an annotation nor its name says so; by side_effects.unknown it counts as ${counted}; ${key}`
    }
    const found = effects === 'effect' ? 'may have side effects' : 'has no side effects'
    const source = sources[sideEffectSource(request, this.knowledge)]
    return `side_effects: the call ${found}, according to ${source}; ${key}`
  }
}

const sources = {
  policy: 'side_effects.tools',
  annotations: "its server's annotations",
  name: 'its name and its argument "method"',
} as const

/**
 * Compiles the policy's `side_effects.tools`: the most specific matching pattern decides, and `true` wins between
 * equally specific ones. Of several readings `true` wins; undefined if the policy says nothing about a reading.
 *
 * @throws {PatternError} for the first pattern that is wrong
 */
export function sideEffectPolicy(
  tools: Readonly<Record<string, boolean>>,
): (readings: readonly string[]) => boolean | undefined {
  const patterns = compilePatternMap(tools)
  return (readings) => {
    const decisions = patterns.lookup(readings).map(decisionOf)
    if (decisions.includes(true)) return true
    return decisions.includes(undefined) ? undefined : false
  }
}

function decisionOf(found: PatternMatches<boolean>): boolean | undefined {
  const max = found[0]?.literals
  return max === undefined ? undefined : found.some(({ value, literals }) => value && literals === max)
}
