// Keys in the memory of this process, for tests and trials: they are lost when it ends.
import type { DedupeClaim, DedupeClaimResult, DedupeStore } from '@svc/core'
import { claimed, type Entry, ended, isRunning, mayEnd, resultOf, sent } from '../entry.js'

export interface MemoryDedupeOptions {
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** Maximum number of keys; a new key beyond it is refused. */
  readonly maxKeys?: number
}

export class MemoryDedupeStore implements DedupeStore {
  readonly inProcess = true
  #now: () => number
  #maxKeys: number
  #entries = new Map<string, Entry>()

  constructor({ now = Date.now, maxKeys = 100_000 }: MemoryDedupeOptions = {}) {
    this.#now = now
    this.#maxKeys = maxKeys
  }

  async claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    const now = this.#now()
    const entry = this.#entries.get(claim.key)
    const result = resultOf(entry, claim, now)
    if (result.state !== 'claimed') return result
    if (entry === undefined) this.#makeRoom(now)
    this.#entries.set(claim.key, claimed(claim, now))
    return result
  }

  async markSent(claim: DedupeClaim): Promise<boolean> {
    const now = this.#now()
    if (!isRunning(this.#entries.get(claim.key), claim, now)) return false
    this.#entries.set(claim.key, sent(claim, now))
    return true
  }

  async renew(claim: DedupeClaim): Promise<boolean> {
    const entry = this.#entries.get(claim.key)
    const now = this.#now()
    if (!isRunning(entry, claim, now)) return false
    this.#entries.set(claim.key, (entry.phase === 'sent' ? sent : claimed)(claim, now))
    return true
  }

  async release(claim: DedupeClaim): Promise<void> {
    if (isRunning(this.#entries.get(claim.key), claim, this.#now())) this.#entries.delete(claim.key)
  }

  async complete(claim: DedupeClaim, response: Uint8Array | null): Promise<boolean> {
    return this.#end(claim, response)
  }

  async markUnknown(claim: DedupeClaim): Promise<boolean> {
    return this.#end(claim, undefined)
  }

  #end(claim: DedupeClaim, response: Uint8Array | null | undefined): boolean {
    const now = this.#now()
    if (!mayEnd(this.#entries.get(claim.key), claim, now)) return false
    this.#entries.set(claim.key, ended(claim, now, response))
    return true
  }

  #makeRoom(now: number): void {
    if (this.#entries.size < this.#maxKeys) return
    for (const [key, { expiresAt }] of this.#entries) if (now >= expiresAt) this.#entries.delete(key)
    if (this.#entries.size >= this.#maxKeys) {
      throw new Error(`the dedupe store holds ${this.#maxKeys} keys already`)
    }
  }
}
