// The rule by which a call counts as side-effecting, shared by write-ahead intents, idempotency keys,
// escalations and mandates.
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

/** A name that begins with one of these, and has no word of an effect, is that of a tool that only reads. */
const readingWords: ReadonlySet<string> = new Set([
  'get',
  'list',
  'read',
  'search',
  'find',
  'fetch',
  'describe',
  'count',
])

/** `unknown` if neither the policy, an annotation nor the name of the tool says it. */
export type SideEffects = 'harmless' | 'effect' | 'unknown'

/** RFC 9110 §9.2.1 without TRACE, which no tool uses. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Sources that take precedence over the tool's name, in this order. */
export interface SideEffectKnowledge {
  /** The policy's `side_effects.tools`, for the readings of a call. */
  readonly policy?: (readings: readonly string[]) => boolean | undefined
  /** The server's annotations, if the policy trusts them. */
  readonly annotations?: (reference: string) => boolean | undefined
  /** The policy's `side_effects.unknown`: how a call counts about which nothing says it. Default: harmless. */
  readonly unknown?: 'harmless' | 'effect'
}

type Judged = Pick<CallRequest, 'kind' | 'name' | 'reference' | 'args'> &
  Partial<Pick<CallRequest, 'readings'>>

/**
 * Whether the call may change something. Prompts, resources and the protocol never do; for a tool the policy decides,
 * then its trusted annotations, then the words of its name and its argument `method`.
 *
 * @throws {Refusal} (`BAD_REQUEST`) if the argument decides, and programs could read different ones as `method`
 */
export function sideEffectsOf(request: Judged, knowledge: SideEffectKnowledge = {}): SideEffects {
  if (request.kind !== 'tool') return 'harmless'
  const { reference, readings = [reference] } = request
  const known = knowledge.policy?.(readings) ?? knowledge.annotations?.(reference)
  if (known !== undefined) return known ? 'effect' : 'harmless'
  const named = effectsByName(request.name)
  return named !== 'effect' && hasEffectMethod(request.args) ? 'effect' : named
}

/** Whether the call counts as one with side effects, for keys, mandates and intents. Throws what `sideEffectsOf` throws. */
export function isSideEffecting(request: Judged, knowledge: SideEffectKnowledge = {}): boolean {
  const effects = sideEffectsOf(request, knowledge)
  return effects === 'unknown' ? knowledge.unknown === 'effect' : effects === 'effect'
}

/** Whether the policy or a trusted annotation, and not the name alone, says that a tool changes nothing. */
export function isDeclaredHarmless(request: Judged, knowledge: SideEffectKnowledge = {}): boolean {
  const { kind, reference, readings = [reference] } = request
  return kind === 'tool' && (knowledge.policy?.(readings) ?? knowledge.annotations?.(reference)) === false
}

/** Returns what decides `sideEffectsOf` for a tool, if it is known. */
export function sideEffectSource(
  { reference, readings }: Pick<CallRequest, 'reference' | 'readings'>,
  { policy, annotations }: SideEffectKnowledge = {},
): 'policy' | 'annotations' | 'name' {
  if (policy?.(readings) !== undefined) return 'policy'
  return annotations?.(reference) === undefined ? 'name' : 'annotations'
}

// Splitting a name costs as much as several stages. Callers choose names, so the cache is bounded.
const knownNames = new Map<string, SideEffects>()
const MAX_NAMES = 1024
const MAX_NAME_LENGTH = 128

function effectsByName(name: string): SideEffects {
  const known = knownNames.get(name)
  if (known !== undefined) return known
  // The name is folded too: `ｒｅｆｕｎｄ` is a refund. A part before an "@" has only words of the whole name.
  const forms = [name, foldName(name)].map(wordsOf)
  const effects = forms.some((words) => words.some((word) => effectWords.has(word)))
    ? 'effect'
    : forms.some(([first = '']) => readingWords.has(first))
      ? 'harmless'
      : 'unknown'
  if (name.length > MAX_NAME_LENGTH) return effects
  if (knownNames.size >= MAX_NAMES) knownNames.clear()
  knownNames.set(name, effects)
  return effects
}

/** A `method` that is not a string counts as unsafe. */
function hasEffectMethod(args: JsonValue): boolean {
  if (!isJsonObject(args)) return false
  let method: string | undefined
  for (const name in args) {
    if (!Object.hasOwn(args, name) || !isMethod(name)) continue
    if (method !== undefined) {
      throw new Refusal(
        'BAD_REQUEST',
        'Two arguments could be read as "method": their names differ only in case or form.',
      )
    }
    method = name
  }
  if (method === undefined) return false
  const value = args[method]
  return typeof value !== 'string' || !safeMethods.has(value.toUpperCase())
}

/** Whether a program could read the name of an argument as `method`; bounded like the names of tools. */
const argumentNames = new Map<string, boolean>()

function isMethod(name: string): boolean {
  const known = argumentNames.get(name)
  if (known !== undefined) return known
  const is = foldName(name) === 'method'
  if (name.length > MAX_NAME_LENGTH) return is
  if (argumentNames.size >= MAX_NAMES) argumentNames.clear()
  argumentNames.set(name, is)
  return is
}
