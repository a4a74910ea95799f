// The keys of a log and the leaves for which each is trusted. Keys enter by the genesis and by `key` lines, and leave
// by `key` and `revoke` lines; the leaf's index decides, never a time.

import type { JournalLine, KeySpan } from '../format/journal-line.js'
import { ALL, type LeafKeys, type NoteVerifier, publicKeyLine, type TrustedKey } from '../format/verifier.js'
import { noteVerifier, verifierFromLine } from '../keys/public-key.js'
import { hasSigned } from '../keys/signatures.js'

interface Entry {
  readonly key: NoteVerifier
  /** The first leaf that it may sign. */
  readonly from: number
  /** The first leaf that it may not sign. */
  until: number
  /** Id of the key that introduced it; null for the key of the genesis. */
  readonly by: string | null
}

export class KeyHistory implements LeafKeys {
  readonly #entries = new Map<string, Entry>()

  /** The history that a seal states. */
  static of(spans: readonly KeySpan[]): KeyHistory {
    const history = new KeyHistory()
    for (const [line, from, until, by] of spans) {
      const key = verifierFromLine(line)
      history.#entries.set(key.keyId, { key, from, until: until ?? Infinity, by })
    }
    return history
  }

  /** The keys that are trusted before a journal says more. */
  static ofTrusted(keys: readonly TrustedKey[]): KeyHistory {
    const history = new KeyHistory()
    for (const key of keys) {
      const [from, until] = key.leaves ?? ALL
      history.#entries.set(key.keyId, { key: noteVerifier(key), from, until, by: null })
    }
    return history
  }

  /** Ids of the keys that are or were of the log. */
  get ids(): string[] {
    return [...this.#entries.keys()]
  }

  has(keyId: string): boolean {
    return this.#entries.has(keyId)
  }

  at(keyId: string, leaf: number | undefined): NoteVerifier | undefined {
    const entry = this.#entries.get(keyId)
    return entry !== undefined && isIn(entry, leaf) ? entry.key : undefined
  }

  allAt(leaf: number | undefined): NoteVerifier[] {
    const keys: NoteVerifier[] = []
    for (const entry of this.#entries.values()) if (isIn(entry, leaf)) keys.push(entry.key)
    return keys
  }

  /** All keys, as a seal states them. */
  spans(): KeySpan[] {
    return this.#sorted().map(({ key, from, until, by }) => {
      return [publicKeyLine(key.publicKey), from, until === Infinity ? null : until, by]
    })
  }

  /** The keys that no line of the journal introduced. */
  given(): KeyHistory {
    return KeyHistory.of(this.spans().filter(([, , , by]) => by === null))
  }

  /**
   * The keys that lead back to one of `given`: those among them, for no more leaves than they say, and those that a key
   * introduced while it was trusted.
   */
  trustedBy(given: readonly TrustedKey[]): KeyHistory {
    const leavesOf = new Map(given.map(({ keyId, leaves }) => [keyId, leaves ?? ALL]))
    const trusted = new KeyHistory()
    for (const { key, from, until, by } of this.#sorted()) {
      const isIntroduced = by !== null && trusted.at(by, from - 1) !== undefined
      const leaves = leavesOf.get(key.keyId) ?? (isIntroduced ? ALL : undefined)
      if (leaves === undefined) continue
      const span = { from: Math.max(from, leaves[0]), until: Math.min(until, leaves[1]) }
      trusted.#entries.set(key.keyId, { key, ...span, by })
    }
    return trusted
  }

  /**
   * Takes the effect of a line, if it is allowed, from a journal whose other lines need not be there. A genesis is signed
   * by its own key and begins the history.
   *
   * @returns whether a key that is trusted at its leaf has signed the line.
   */
  takeSigned(line: JournalLine): boolean {
    const isGenesis = line.kind === 'genesis'
    const signers = isGenesis ? KeyHistory.of([[line.key, 0, null, null]]) : this
    const signer = signers.at(line.key_id, line.leaf)
    if (signer === undefined || !hasSigned(line, signer)) return false
    if (isGenesis) this.#entries.clear()
    if (this.whyNot(line) === undefined) this.apply(line)
    return true
  }

  /** Why the effect of `line` is not allowed; undefined if it is. */
  whyNot(line: JournalLine): string | undefined {
    if (line.kind === 'revoke') return this.#whyNotLeave(line.revoked, line.until, line)
    if (line.kind !== 'key' && line.kind !== 'genesis') return undefined
    if (line.key !== undefined && this.#entries.has(verifierFromLine(line.key).keyId))
      return 'its key has entered before'
    if (line.kind === 'genesis' || line.retired === undefined || line.until === undefined) return undefined
    if (line.until <= line.leaf) return 'a retired key stays valid up to the line that retires it'
    return this.#whyNotLeave(line.retired, line.until, line)
  }

  /** Takes the effect of an allowed line whose signature is checked. */
  apply(line: JournalLine): void {
    if (line.kind === 'genesis') this.#enter(line.key, line.leaf, null)
    if (line.kind === 'revoke') this.#leave(line.revoked, line.until)
    if (line.kind !== 'key') return
    if (line.key !== undefined) this.#enter(line.key, line.leaf + 1, line.key_id)
    if (line.retired !== undefined) this.#leave(line.retired, line.until ?? line.leaf + 1)
  }

  #enter(line: string, from: number, by: string | null): void {
    const key = verifierFromLine(line)
    this.#entries.set(key.keyId, { key, from, until: Infinity, by })
  }

  /** A line must not take away the trust in the key that signs it. */
  #whyNotLeave(keyId: string, until: number, { key_id: signedBy, leaf }: JournalLine): string | undefined {
    if (!this.#entries.has(keyId)) return `key ${keyId} is not one of the log`
    let signed = leaf
    for (let id: string | null = signedBy; id !== null; ) {
      if (id === keyId && signed >= until) return 'it takes away the trust in the key that signs it'
      const entry = this.#entries.get(id)
      // Lines with a wrong signature may state that two keys introduced each other.
      if (entry === undefined || entry.from > signed) return undefined
      signed = entry.from - 1
      id = entry.by
    }
    return undefined
  }

  /** Keys that the key introduced when it was no longer trusted are not trusted either. */
  #leave(keyId: string, until: number): void {
    const entry = this.#entries.get(keyId)
    if (entry === undefined || entry.until <= until) return
    entry.until = until
    for (const [id, { by, from }] of this.#entries)
      if (by === keyId && from - 1 >= until) this.#leave(id, from)
  }

  #sorted(): Entry[] {
    return [...this.#entries.values()].sort((a, b) => {
      return a.from - b.from || (publicKeyLine(a.key.publicKey) < publicKeyLine(b.key.publicKey) ? -1 : 1)
    })
  }
}

function isIn({ from, until }: Entry, leaf: number | undefined): boolean {
  return leaf === undefined || (from <= leaf && leaf < until)
}
