// The one rule by which a call counts as side-effecting (decisions.md §3): what gates write-ahead, idempotency keys,
// escalations and mandates must not drift apart.
import type { JsonValue } from '../json/value.js'
import { compilePatternMap } from '../match/matcher.js'
import { wordsOf } from '../match/words.js'
import type { CallRequest } from './request.js'

const effectWords: ReadonlySet<string> = new Set([
  'write',
  'delete',
  'remove',
  'put',
  'post',
  'patch',
  'create',
  'update',
  'insert',
  'send',
  'pay',
  'transfer',
  'execute',
  'run',
  'drop',
  'move',
  'rename',
  'upload',
  'publish',
  'grant',
  'revoke',
  'buy',
  'purchase',
  'checkout',
  'order',
  'charge',
  'refund',
  'book',
  'cancel',
  'set',
  'add',
  'exec',
])

/** RFC 9110 §9.2.1; TRACE is no tool's method. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** What speaks before the tool's name does, the first that says anything winning. */
export interface SideEffectKnowledge {
  /** The policy's `side_effects.tools`, for a canonical reference. */
  readonly policy?: (reference: string) => boolean | undefined
  /** Learned from the server's annotations, where the policy trusts them. */
  readonly annotations?: (reference: string) => boolean | undefined
}

/**
 * Whether the call may change something. Prompts, resources and the protocol itself never do; a tool does when the
 * policy or its trusted annotations say so, or else when a word of its name or its argument `method` does.
 */
export function isSideEffecting(
  request: Pick<CallRequest, 'kind' | 'name' | 'reference' | 'args'>,
  knowledge: SideEffectKnowledge = {},
): boolean {
  if (request.kind !== 'tool') return false
  const { reference } = request
  return (
    knowledge.policy?.(reference) ??
    knowledge.annotations?.(reference) ??
    (isNamedForEffect(request.name) || hasEffectMethod(request.args))
  )
}

function isNamedForEffect(name: string): boolean {
  return wordsOf(name).some((word) => effectWords.has(word))
}

/** A `method` of any other kind than text is none that is known to be safe. */
function hasEffectMethod(args: JsonValue): boolean {
  if (typeof args !== 'object' || args === null || Array.isArray(args) || !Object.hasOwn(args, 'method')) {
    return false
  }
  const { method } = args
  return typeof method !== 'string' || !safeMethods.has(method.toUpperCase())
}

/**
 * Compiles the policy's `side_effects.tools`: the most specific pattern that matches decides, and between equals the
 * one that says yes.
 *
 * @throws {PatternError} for the first pattern that is wrong
 */
export function sideEffectPolicy(
  tools: Readonly<Record<string, boolean>>,
): (reference: string) => boolean | undefined {
  const patterns = compilePatternMap(tools)
  return (reference) => {
    const found = patterns.lookup(reference)
    const most = found[0]?.literals
    return most === undefined ? undefined : found.some(({ value, literals }) => value && literals === most)
  }
}
