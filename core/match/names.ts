// Patterns of names of callers: of users, roles, clients, nodes and tenants. A star matches any run of characters, and
// every other character itself.
import { foldName } from './fold.js'
import { type Glob, globMatches, globOf, globsMeet, isLiteral } from './glob.js'

/** A key that matches a name. */
export interface NameMatch {
  readonly key: string
  /** Whether it matches the name as it is written, and not only folded. What allows uses no other. */
  readonly isWritten: boolean
}

interface CompiledName {
  readonly key: string
  readonly written: Glob
  readonly folded: Glob
}

/** The keys of one map. Those without a star are found by a look-up, so that they cost the same however many they are. */
export class NamePatterns {
  readonly size: number
  readonly #names: ReadonlySet<string>
  readonly #byFold = new Map<string, string[]>()
  readonly #patterns: readonly CompiledName[]

  constructor(keys: readonly string[]) {
    this.size = keys.length
    const isName = (key: string) => isLiteral(globOf(key))
    this.#names = new Set(keys.filter(isName))
    for (const key of this.#names) {
      const fold = foldName(key)
      this.#byFold.set(fold, [...(this.#byFold.get(fold) ?? []), key])
    }
    const patterns = keys.filter((key) => !isName(key)).map(compiled)
    this.#patterns = patterns.sort((a, b) => specificityOf(b.key) - specificityOf(a.key))
  }

  /** First those that match it as it is written, then those that match it folded; of each the most specific first. */
  match(name: string): readonly NameMatch[] {
    const written: NameMatch[] = this.#names.has(name) ? [{ key: name, isWritten: true }] : []
    const fold = foldName(name)
    const folded = (this.#byFold.get(fold) ?? [])
      .filter((key) => key !== name)
      .map((key): NameMatch => ({ key, isWritten: false }))
    for (const { key, written: glob, folded: foldedGlob } of this.#patterns) {
      if (globMatches(glob, name)) written.push({ key, isWritten: true })
      else if (globMatches(foldedGlob, fold)) folded.push({ key, isWritten: false })
    }
    return [...written, ...folded]
  }
}

/** The number of the key's characters that are no star; a key without a star is the most specific. */
export function specificityOf(key: string): number {
  const glob = globOf(key)
  return isLiteral(glob)
    ? Number.POSITIVE_INFINITY
    : glob.reduce((count, chunk) => count + [...chunk].length, 0)
}

const FIRST_IDEOGRAPH = 0x4e00

/** Stands for a star while a pattern is folded as one text; no name has control characters. */
const STAR = '\u0008'

function compiled(key: string): CompiledName {
  const written = globOf(key)
  const [first = '', ...rest] = foldName(written.join(STAR)).split(STAR)
  return { key, written, folded: [first, ...rest] }
}

/** Why no name can match, for the author of the policy; undefined if one can. */
export function namePatternError(source: string): string | undefined {
  if (source === '') return 'a name is not empty; "*" matches every name'
  if (source.trim() === '') return 'no name consists of spaces alone'
  if (/\p{Cc}/u.test(source)) return 'no name has control characters'
  if (!source.isWellFormed()) return 'half of a surrogate pair'
  return undefined
}

/** Whether neither of two keys is more specific, and some name matches both. */
export function isTie(a: string, b: string): boolean {
  return specificityOf(a) === specificityOf(b) && globsMeet(globOf(a), globOf(b))
}

/** A name that none of the patterns matches, even folded; undefined if one of them matches every name. */
export function nameOutside(patterns: readonly string[]): string | undefined {
  if (patterns.some((pattern) => /^\*+$/.test(pattern))) return undefined
  return unusedIn(patterns)
}

/** A letter that no text has and that no fold changes. */
function unusedIn(texts: readonly string[]): string {
  const all = texts.join('')
  let code = FIRST_IDEOGRAPH
  while (all.includes(String.fromCharCode(code))) code++
  return String.fromCharCode(code)
}
