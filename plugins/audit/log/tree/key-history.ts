// The keys of a log and the leaves for which each is trusted. Keys enter by the genesis and by `key` lines, and leave
// by `key` and `revoke` lines; the leaf's index decides, never a time.

import { publicKeyLine, type SignatureVerifier, verifierFromLine } from '../keys/public-key.js'
import type { JournalLine, KeySpan } from './journal-line.js'

interface Entry {
  readonly key: SignatureVerifier
  /** The first leaf that it may sign. */
  readonly from: number
  /** The first leaf that it may not sign. */
  until: number
  /** Id of the key that introduced it; null for the key of the genesis. */
  readonly by: string | null
}

export class KeyHistory {
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

  /** The key, if it is trusted for `leaf`. */
  at(keyId: string, leaf: number): SignatureVerifier | undefined {
    const entry = this.#entries.get(keyId)
    return entry !== undefined && entry.from <= leaf && leaf < entry.until ? entry.key : undefined
  }

  /** Whether the key is or was one of the log. */
  has(keyId: string): boolean {
    return this.#entries.has(keyId)
  }

  /** All keys that are trusted for `leaf`. */
  allAt(leaf: number): SignatureVerifier[] {
    return [...this.#entries.values()]
      .filter(({ from, until }) => from <= leaf && leaf < until)
      .map(({ key }) => key)
  }

  /** All keys that are or were of the log. */
  all(): SignatureVerifier[] {
    return [...this.#entries.values()].map(({ key }) => key)
  }

  /** All keys, as a seal states them. */
  spans(): KeySpan[] {
    return [...this.#entries.values()]
      .map(({ key, from, until, by }): KeySpan => {
        return [publicKeyLine(key.publicKey), from, until === Infinity ? null : until, by]
      })
      .sort(([keyA, fromA], [keyB, fromB]) => fromA - fromB || (keyA < keyB ? -1 : 1))
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
      signed = (entry?.from ?? 0) - 1
      id = entry?.by ?? null
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
}
