// The characters that suffice to tell patterns apart: each literal one, one that no pattern has, and for each folded
// literal one that no pattern has and that folds to it.
import { foldName } from './fold.js'
import { NotComparableError } from './not-comparable.js'
import { isVersion } from './reference.js'
import { placeholdersFor } from './subject.js'

export interface NameSymbol {
  readonly text: string
  /** Its fold within a name. */
  readonly folded: string
  /** Whether the fold removes it at the ends of a name. */
  readonly isRemovable: boolean
  /** Whether no pattern has it. */
  readonly isFresh: boolean
}

interface Alphabet {
  readonly written: readonly string[]
  readonly folded: readonly string[]
}

/** Characters of which one is in no usual pattern, the plainest first. */
const CANDIDATES = [...'xyzqjkwv0123456789abcdefghilmnoprstuXYZ', '日', '本', 'ж', 'щ', 'ю']

/** A character that is not shown; the fold removes it. */
const INVISIBLE = '\u200b'

/** @throws {NotComparableError} */
export function nameSymbols(alphabet: Alphabet): NameSymbol[] {
  const written = new Set(alphabet.written)
  const folded = new Set(alphabet.folded)
  const fresh = CANDIDATES.find((character) => !written.has(character) && !folded.has(foldOf(character)))
  if (fresh === undefined) throw new NotComparableError('the patterns have every usual character')
  const literals = [...written].map((text) => symbolOf(text, false))
  const symbols = [symbolOf(fresh, true), ...literals]
  if (folded.size === 0) return symbols
  for (const character of folded) {
    const isVariant = (one: string) => !written.has(one) && foldOf(one) === character
    const variant = variantsOf(character).find(isVariant) ?? othersOf(character).find(isVariant)
    if (variant !== undefined) symbols.push(symbolOf(variant, true))
  }
  if (!written.has(INVISIBLE)) symbols.push(symbolOf(INVISIBLE, true))
  return symbols
}

/** The symbols that a version may have. */
export function versionSymbols(symbols: readonly NameSymbol[]): NameSymbol[] {
  return symbols.filter(({ text }) => isVersion(`0${text}`))
}

function symbolOf(text: string, isFresh: boolean): NameSymbol {
  const folded = foldOf(text)
  return { text, folded, isRemovable: /^[\s.]+$/u.test(folded), isFresh }
}

/** The upper case, and the full-width form of a printable ASCII character. */
function variantsOf(character: string): string[] {
  const [plain = character] = PLAIN_OF.get(character) ?? [character]
  const code = plain.codePointAt(0) ?? 0
  const wide = code > 0x20 && code < 0x7f ? [String.fromCodePoint(code + 0xfee0)] : []
  return [character.toUpperCase(), ...wide].filter((variant) => variant !== character)
}

let preimages: ReadonlyMap<string, readonly string[]> | undefined

/**
 * All characters with this fold.
 *
 * @throws {NotComparableError} if none has it and some have it as a part
 */
function othersOf(character: string): readonly string[] {
  preimages ??= foldsOfAll()
  const others = preimages.get(character) ?? []
  const isPart = () =>
    [...(preimages ?? new Map()).keys()].some((fold) => fold !== character && fold.includes(character))
  if (others.every((one) => one === character) && isPart())
    throw new NotComparableError(`"${character}" is a part of the fold of others`)
  return others
}

function foldsOfAll(): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (let code = 0x80; code < 0x3_0000; code++) {
    const character = String.fromCodePoint(code)
    if (!/[\p{L}\p{N}\p{P}\p{S}]/u.test(character)) continue
    const fold = foldName(`a${character}a`).slice(1, -1)
    if (fold !== character) found.set(fold, [...(found.get(fold) ?? []), character])
  }
  return found
}

/** The signs of which a subject has placeholders. */
const PLAIN_OF = new Map(['/', '@', '%'].map((sign) => [placeholdersFor(sign), [sign]]))

/** Marks, and letters that are composed with others. */
const COMPOSING = /[\p{M}\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\uff9e\uff9f]/u

/** @throws {NotComparableError} */
function foldOf(character: string): string {
  if (/^\p{Cc}$/u.test(character)) return character
  const folded = foldName(`a${character}a`).slice(1, -1)
  if (COMPOSING.test(character) || COMPOSING.test(folded))
    throw new NotComparableError(`the fold of "${character}" depends on its neighbours`)
  return placeholdersFor(folded)
}
