// The pins of a server: its definitions in the lock file, those that somebody accepted, and those of a first use. The last
// count only for servers that the lock file does not have.
import type { DefinitionKind, ReceivedDefinition } from '@svc/core'
import type { ReviewedNames } from '../shared/definition-texts.js'
import type { KnownDefinitions, KnownEntry } from './known-document.js'
import type { LockedDefinitions } from './lock-file.js'

export class Pins implements ReviewedNames {
  readonly #server: string
  readonly #known: KnownDefinitions
  readonly #locked: LockedDefinitions

  constructor(server: string, known: KnownDefinitions, locked: LockedDefinitions) {
    this.#server = server
    this.#known = known
    this.#locked = locked
  }

  /** Only a definition of this kind counts: a tool with the text of a prompt that was accepted is not accepted. */
  has(kind: DefinitionKind, sha256: string): boolean {
    const entry = this.#known.entry(sha256)
    return (entry?.kind === kind && this.#counts(entry)) || this.#locked.has(this.#server, kind, sha256)
  }

  /** The hashes of the pinned definitions with this name. */
  of(kind: DefinitionKind, name: string): readonly string[] {
    const locked = this.#locked.pinned(this.#server, kind, name)
    const known = this.#known
      .pinned(kind, name)
      .filter((sha256) => !locked.includes(sha256) && this.has(kind, sha256))
    return [...locked, ...known]
  }

  get basis(): unknown {
    return this.#known
  }

  isReviewed({ kind, name }: ReceivedDefinition): boolean {
    if (kind === 'resource') return false
    if (this.#locked.pinned(this.#server, kind, name).length > 0) return true
    return this.#known.pinned(kind, name).some((sha256) => this.#known.entry(sha256)?.state === 'accepted')
  }

  get lockedTools(): readonly (readonly [server: string, names: readonly string[]])[] {
    return Object.entries(this.#locked.servers).map(([server, { tools = [] }]) => [
      server,
      tools.map(({ name }) => name),
    ])
  }

  #counts({ state }: KnownEntry): boolean {
    return state === 'accepted' || (state === 'first_use' && !this.#locked.hasServer(this.#server))
  }
}
