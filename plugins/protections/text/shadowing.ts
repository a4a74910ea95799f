// Definitions that speak of the tools of other servers, or take their names. A gateway knows the tools that it has listed.
import { foldName } from '@svc/core/match'
import { BoundedMap } from '@svc/core/store'
import { letterOf } from './letters.js'

const MAX_SERVERS = 256
const MAX_TOOLS = 2_000
/** Only names of at least two words are looked for in text: `search` is a word, `search_mail` is a tool. */
const COMPOUND = /^(?=.{8,128}$)[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+|[a-z0-9][A-Z][a-z0-9]+)+/

export type Shadowing = { readonly tool: string; readonly other: string } & (
  | { readonly rule: 'names-other-tool' }
  /** Whether it is known which of the two names imitates the other. */
  | { readonly rule: 'shadowed-name'; readonly isImitation: boolean }
)

/** A name, and whether a person or the lock file pinned it. */
type Named = readonly [name: string, isReviewed: boolean]

export class KnownTools {
  /** By server, the names of its tools by what they look like. */
  readonly #tools = new BoundedMap<string, ReadonlyMap<string, ReadonlyMap<string, boolean>>>(MAX_SERVERS)

  #generation = 0

  /** Another number after each change of what is known. */
  get generation(): number {
    return this.#generation
  }

  learn(server: string, names: readonly Named[]): void {
    const before = this.#tools.get(server)
    const known = new Map(before ?? [])
    let size = [...known.values()].reduce((sum, alike) => sum + alike.size, 0)
    let isChanged = before === undefined
    for (const [name, isReviewed] of names) {
      const looks = looksOf(name)
      const alike = known.get(looks)
      if (alike?.get(name) === isReviewed) continue
      if (alike?.has(name) !== true && ++size > MAX_TOOLS) break
      known.set(looks, new Map(alike ?? []).set(name, isReviewed))
      isChanged = true
    }
    this.#tools.set(server, known)
    if (isChanged) this.#generation++
  }

  /** The tools of a server that was listed last are kept longest. */
  use(server: string): void {
    const known = this.#tools.get(server)
    if (known !== undefined) this.#tools.set(server, known)
  }

  /**
   * Compares a definition of `server` with other servers' tools. Which server sent its list first does not count: a reviewed
   * name belongs to its server, and a name that mixes scripts is the imitation. `own` are the names of the tools of its list.
   */
  shadowing(
    server: string,
    [name, isReviewed]: Named,
    texts: readonly string[],
    own: ReadonlySet<string>,
  ): Shadowing | undefined {
    const looks = looksOf(name)
    let alike: Shadowing | undefined
    for (const [other, tools] of isReviewed ? [] : this.#tools.entries()) {
      if (other === server) continue
      for (const [like, isLikeReviewed] of tools.get(looks) ?? []) {
        // The same name at two servers is common; one that only looks the same is not.
        if (foldName(like) === foldName(name)) continue
        const isImitation = isLikeReviewed || (isMixed(name) && !isMixed(like))
        if (isImitation || alike === undefined)
          alike = { rule: 'shadowed-name', tool: like, other, isImitation }
        if (isImitation) return alike
      }
    }
    for (const word of texts.flatMap((text) => text.match(/[A-Za-z0-9][\w-]{6,127}/g) ?? [])) {
      if (!COMPOUND.test(word) || own.has(word)) continue
      for (const [other, tools] of this.#tools.entries()) {
        if (other !== server && tools.get(looksOf(word))?.has(word) === true)
          return { rule: 'names-other-tool', tool: word, other }
      }
    }
    return alike
  }
}

/** Whether a word of the name has Latin letters and look-alikes of them, or characters that are not shown. Accents are common. */
function isMixed(name: string): boolean {
  const words = name.normalize('NFC').split(/[_.\s-]+/)
  return words.some((word) => /[A-Za-z]/.test(word) && Array.from(word).some(isLookAlike))
}

function isLookAlike(character: string): boolean {
  const letter = letterOf(character.charCodeAt(0))
  return /[^\p{ASCII}\u00c0-\u024f\u1e00-\u1eff]/u.test(character) && letter > 0 && letter < 128
}

/** The name in the letters that a reader sees. */
function looksOf(name: string): string {
  return Array.from(name, (character) => {
    const letter = letterOf(character.charCodeAt(0))
    return letter > 1 ? String.fromCharCode(letter) : letter === 1 ? '' : character
  })
    .join('')
    .replaceAll('0', 'o')
    .replaceAll('1', 'l')
    .replaceAll('i', 'l')
}
