// Definitions that speak of the tools of other servers, or take their names. A gateway knows the tools that it has listed.
import { foldName } from '@svc/core/match'
import { BoundedMap } from '@svc/core/store'
import { letterOf } from './letters.js'

const MAX_SERVERS = 256
const MAX_TOOLS = 2_000
/** Only names of at least two words are looked for in text: `search` is a word, `search_mail` is a tool. */
const COMPOUND = /^(?=.{8,128}$)[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+|[a-z0-9][A-Z][a-z0-9]+)+/

export interface Shadowing {
  readonly rule: 'shadowed-name' | 'names-other-tool'
  readonly tool: string
  readonly other: string
}

export class KnownTools {
  /** By server, the names of its tools by what they look like. */
  readonly #tools = new BoundedMap<string, ReadonlyMap<string, string>>(MAX_SERVERS)

  #generation = 0

  /** Another number after each change of what is known. */
  get generation(): number {
    return this.#generation
  }

  learn(server: string, names: readonly string[]): void {
    const before = this.#tools.get(server)
    const known = new Map(before ?? [])
    let isChanged = before === undefined
    for (const name of names) {
      if (known.size >= MAX_TOOLS) break
      const looks = looksOf(name)
      isChanged ||= known.get(looks) !== name
      known.set(looks, name)
    }
    this.#tools.set(server, known)
    if (isChanged) this.#generation++
  }

  /** The tools of a server that was listed last are kept longest. */
  use(server: string): void {
    const known = this.#tools.get(server)
    if (known !== undefined) this.#tools.set(server, known)
  }

  /** What a definition of `server` has of other servers' tools. `own` are the names of the tools of its list. */
  shadowing(
    server: string,
    name: string,
    texts: readonly string[],
    own: ReadonlySet<string>,
  ): Shadowing | undefined {
    const looks = looksOf(name)
    for (const [other, tools] of this.#tools.entries()) {
      if (other === server) continue
      const like = tools.get(looks)
      // The same name at two servers is common; one that only looks the same is not.
      if (like !== undefined && foldName(like) !== foldName(name))
        return { rule: 'shadowed-name', tool: like, other }
    }
    for (const word of texts.flatMap((text) => text.match(/[A-Za-z0-9][\w-]{6,127}/g) ?? [])) {
      if (!COMPOUND.test(word) || own.has(word)) continue
      for (const [other, tools] of this.#tools.entries()) {
        if (other !== server && tools.get(looksOf(word)) === word)
          return { rule: 'names-other-tool', tool: word, other }
      }
    }
    return undefined
  }
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
