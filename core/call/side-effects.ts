// The rule by which a call counts as side-effecting, shared by write-ahead intents, idempotency keys,
// escalations and mandates.
import { membersLike } from '../json/members.js'
import { isJsonObject } from '../json/parse-object.js'
import type { JsonValue } from '../json/value.js'
import { foldName } from '../match/fold.js'
import { wordsOf } from '../match/words.js'
import { Refusal } from './errors.js'
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

/** RFC 9110 §9.2.1 without TRACE, which no tool uses. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Sources that take precedence over the tool's name, in this order. */
export interface SideEffectKnowledge {
  /** The policy's `side_effects.tools`, for the readings of a call. */
  readonly policy?: (readings: readonly string[]) => boolean | undefined
  /** The server's annotations, if the policy trusts them. */
  readonly annotations?: (reference: string) => boolean | undefined
}

/**
 * Whether the call may change something. Prompts, resources and the protocol never do; for a tool the policy decides,
 * then its trusted annotations, then the words of its name and its argument `method`.
 *
 * @throws {Refusal} (`BAD_REQUEST`) if the argument decides, and programs could read different ones as `method`
 */
export function isSideEffecting(
  request: Pick<CallRequest, 'kind' | 'name' | 'reference' | 'args'> & Partial<Pick<CallRequest, 'readings'>>,
  knowledge: SideEffectKnowledge = {},
): boolean {
  if (request.kind !== 'tool') return false
  const { reference, readings = [reference] } = request
  return (
    knowledge.policy?.(readings) ??
    knowledge.annotations?.(reference) ??
    (isNamedForEffect(request.name) || hasEffectMethod(request.args))
  )
}

/** Returns what decides `isSideEffecting` for a tool. */
export function sideEffectSource(
  { reference, readings }: Pick<CallRequest, 'reference' | 'readings'>,
  { policy, annotations }: SideEffectKnowledge = {},
): 'policy' | 'annotations' | 'name' {
  if (policy?.(readings) !== undefined) return 'policy'
  return annotations?.(reference) === undefined ? 'name' : 'annotations'
}

// Splitting a name costs as much as several stages. Callers choose names, so the cache is bounded.
const namedForEffect = new Map<string, boolean>()
const MAX_NAMES = 1024
const MAX_NAME_LENGTH = 128

function isNamedForEffect(name: string): boolean {
  const known = namedForEffect.get(name)
  if (known !== undefined) return known
  // The name is folded too: `ｒｅｆｕｎｄ` is a refund. A part before an "@" has only words of the whole name.
  const isNamed = [name, foldName(name)].some((text) => wordsOf(text).some((word) => effectWords.has(word)))
  if (name.length > MAX_NAME_LENGTH) return isNamed
  if (namedForEffect.size >= MAX_NAMES) namedForEffect.clear()
  namedForEffect.set(name, isNamed)
  return isNamed
}

/** A `method` that is not a string counts as unsafe. */
function hasEffectMethod(args: JsonValue): boolean {
  if (!isJsonObject(args)) return false
  const [name, other] = membersLike(args, 'method')
  if (name === undefined) return false
  if (other !== undefined) {
    throw new Refusal(
      'BAD_REQUEST',
      'Two arguments could be read as "method": their names differ only in case or form.',
    )
  }
  const method = args[name]
  return typeof method !== 'string' || !safeMethods.has(method.toUpperCase())
}
