// The facts that gateways know about a server's definitions: one document per server, which is replaced as a whole.
import type { DefinitionKind } from '@svc/core'

export interface KnownEntry {
  readonly kind: DefinitionKind
  readonly name: string
  /** Pinned by its first use or by a person, or neither. */
  readonly state: 'first_use' | 'accepted' | 'waiting'
  /** ISO 8601: when it was first received. */
  readonly at: string
  /** Whether its content is on record. */
  readonly recorded?: true
}

export interface KnownDocument {
  /** UTC day on which the server was first seen. */
  readonly since: string
  /** UTC day of the next two. */
  readonly day: string
  readonly added: number
  readonly bytes: number
  /** By SHA-256. */
  readonly entries: Readonly<Record<string, KnownEntry>>
}

/** New definitions of a server per day, after the day on which it was first seen. */
const newPerDay = 20
/** New definitions on the first day: a whole list. */
const newOnFirstDay = 5_000
const bytesPerDay = 8_388_608
/** Definitions of a server that are kept. */
const maxEntries = 10_000

export interface NewDefinition {
  readonly kind: DefinitionKind
  readonly name: string
  readonly sha256: string
  readonly bytes: number
  /** Whether it is in the lock file, and so counts against no limit. */
  readonly isLocked: boolean
}

export class KnownDefinitions {
  readonly document: KnownDocument
  #pinned: Map<string, string[]> | undefined
  #names: Set<string> | undefined

  constructor(document: KnownDocument) {
    this.document = document
  }

  entry(sha256: string): KnownEntry | undefined {
    return Object.hasOwn(this.document.entries, sha256) ? this.document.entries[sha256] : undefined
  }

  /** Whether a definition with this name was received, pinned or not. */
  hasName(kind: DefinitionKind, name: string): boolean {
    this.#names ??= new Set(
      Object.values(this.document.entries).map((entry) => keyOf(entry.kind, entry.name)),
    )
    return this.#names.has(keyOf(kind, name))
  }

  /** Hashes of the pinned definitions with this name. */
  pinned(kind: DefinitionKind, name: string): readonly string[] {
    this.#pinned ??= pinnedIn(this.document)
    return this.#pinned.get(keyOf(kind, name)) ?? []
  }
}

function pinnedIn({ entries }: KnownDocument): Map<string, string[]> {
  const pinned = new Map<string, string[]>()
  for (const [sha256, { kind, name, state }] of Object.entries(entries)) {
    if (state === 'waiting') continue
    const key = keyOf(kind, name)
    pinned.set(key, [...(pinned.get(key) ?? []), sha256])
  }
  return pinned
}

function keyOf(kind: DefinitionKind, name: string): string {
  return `${kind} ${name}`
}

export function emptyDocument(at: string): KnownDocument {
  const day = at.slice(0, 10)
  return { since: day, day, added: 0, bytes: 0, entries: {} }
}

/**
 * Adds the definitions that are new, up to the limits of the day: pinned if `isFirstTrusted` and none of its name is, else
 * waiting. Returns the same document if nothing is added.
 */
export function withNew(
  document: KnownDocument,
  definitions: readonly NewDefinition[],
  at: string,
  isFirstTrusted: (definition: NewDefinition) => boolean,
): KnownDocument {
  const day = at.slice(0, 10)
  const known = new KnownDefinitions(document)
  let { added, bytes } = document.day === day ? document : { added: 0, bytes: 0 }
  const limit = document.since === day ? newOnFirstDay : newPerDay
  const entries = new Map<string, KnownEntry>()
  const trusted = new Set<string>()
  let room = maxEntries - Object.keys(document.entries).length
  for (const definition of definitions) {
    const { kind, name, sha256, bytes: size, isLocked } = definition
    if (known.entry(sha256) !== undefined || entries.has(sha256) || room === 0) continue
    if (!isLocked) {
      if (added >= limit || bytes + size > bytesPerDay) continue
      added += 1
      bytes += size
    }
    const key = keyOf(kind, name)
    const isTrusted =
      !isLocked && !trusted.has(key) && known.pinned(kind, name).length === 0 && isFirstTrusted(definition)
    if (isTrusted) trusted.add(key)
    entries.set(sha256, { kind, name, state: isTrusted ? 'first_use' : 'waiting', at })
    room -= 1
  }
  if (entries.size === 0) return document
  return {
    since: document.since,
    day,
    added,
    bytes,
    entries: { ...document.entries, ...Object.fromEntries(entries) },
  }
}

/** Changes the entries of these hashes. */
export function withEntries(
  document: KnownDocument,
  hashes: readonly string[],
  change: (entry: KnownEntry) => KnownEntry,
): KnownDocument {
  const changed = hashes.flatMap((sha256): [string, KnownEntry][] => {
    const entry = Object.hasOwn(document.entries, sha256) ? document.entries[sha256] : undefined
    return entry === undefined ? [] : [[sha256, change(entry)]]
  })
  return changed.length === 0
    ? document
    : { ...document, entries: { ...document.entries, ...Object.fromEntries(changed) } }
}
