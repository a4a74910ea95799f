// The limits that workers share, as the main process has them: each worker holds a part of a limit for a key, and the
// parts together are never more than the limit. A worker that holds enough asks nobody.
export interface LimitHolder {
  /** Lets the holder give back what it does not use. Rejects if it has ended, or does not respond in time. */
  recall(limit: string, key: string): Promise<void>
}

export class LimitParts<Holder extends LimitHolder> {
  #holders: () => readonly Holder[]
  /** By limit and key, what each holds. */
  #held = new Map<string, Map<Holder, number>>()

  constructor(holders: () => readonly Holder[]) {
    this.#holders = holders
  }

  /** How many more the holder may have in use: a share of what is left, and 0 only if all others use what they hold, or do not respond. */
  async take(holder: Holder, limit: string, key: string, max: number): Promise<number> {
    const name = `${limit} ${key}`
    if (this.#left(name, max) <= 0) await this.#recall(holder, limit, key)
    const left = this.#left(name, max)
    const holders = this.#holders()
    // One that has ended meanwhile would keep it for ever.
    if (left <= 0 || !holders.includes(holder)) return 0
    const share = Math.ceil(left / (2 * holders.length))
    this.#add(name, holder, share)
    return share
  }

  giveBack(holder: Holder, limit: string, key: string, count: number): void {
    this.#add(`${limit} ${key}`, holder, -count)
  }

  /** Frees what a holder that has ended held. */
  forget(holder: Holder): void {
    for (const name of this.#held.keys()) this.#add(name, holder, Number.NEGATIVE_INFINITY)
  }

  async #recall(asking: Holder, limit: string, key: string): Promise<void> {
    const held = this.#held.get(`${limit} ${key}`)
    const others = [...(held?.keys() ?? [])].filter((holder) => holder !== asking)
    await Promise.allSettled(others.map((holder) => holder.recall(limit, key)))
  }

  #left(name: string, max: number): number {
    let left = max
    for (const count of this.#held.get(name)?.values() ?? []) left -= count
    return left
  }

  #add(name: string, holder: Holder, count: number): void {
    const held = this.#held.get(name) ?? new Map<Holder, number>()
    const sum = (held.get(holder) ?? 0) + count
    if (sum > 0) this.#held.set(name, held.set(holder, sum))
    else if (held.delete(holder) && held.size === 0) this.#held.delete(name)
  }
}
