// A limit that workers share, as one of them has it: it holds a part of the limit for each key, and asks for more if it
// uses all of that.
import { type MaybePromise, withinLimit } from '@svc/core'
import type { UseLimit } from '../budget/use-limit.js'
import { mainMs } from './messages.js'

/** How long a part that is not in use is kept at least, in milliseconds. */
const unusedMs = 10_000

interface Part {
  held: number
  used: number
  usedSinceSweep: boolean
  asking: Promise<number> | undefined
}

interface LimitOwner {
  /** Returns how many more may be in use. */
  take(key: string, max: number): Promise<number>
  giveBack(key: string, count: number): void
}

export class HeldLimit implements UseLimit {
  readonly max: number
  #owner: LimitOwner
  #parts = new Map<string, Part>()

  constructor(max: number, owner: LimitOwner) {
    this.max = max
    this.#owner = owner
    setInterval(() => this.sweep(), unusedMs).unref()
  }

  take(key: string): MaybePromise<boolean> {
    const part = this.#part(key)
    part.usedSinceSweep = true
    if (part.used >= part.held) return this.#takeMore(key, part)
    part.used++
    return true
  }

  release(key: string): void {
    this.#part(key).used--
  }

  /** Gives back what is not in use. */
  recall(key: string): void {
    const part = this.#parts.get(key)
    if (part === undefined || part.held === part.used) return
    this.#owner.giveBack(key, part.held - part.used)
    part.held = part.used
  }

  /** Gives back parts that were not used since the last time. */
  sweep(): void {
    for (const [key, part] of this.#parts) {
      const isUnused = part.used === 0 && part.asking === undefined && !part.usedSinceSweep
      part.usedSinceSweep = false
      if (!isUnused) continue
      if (part.held > 0) this.#owner.giveBack(key, part.held)
      this.#parts.delete(key)
    }
  }

  async #takeMore(key: string, part: Part): Promise<boolean> {
    while (part.used >= part.held) {
      part.asking ??= this.#ask(key, part)
      // An owner that does not respond in time allows no more; its late response counts for later calls.
      const more = await withinLimit('the main process', part.asking, mainMs).catch(() => 0)
      if (more === 0 && part.used >= part.held) return false
    }
    part.used++
    return true
  }

  async #ask(key: string, part: Part): Promise<number> {
    try {
      const more = await this.#owner.take(key, this.max)
      part.held += more
      return more
    } finally {
      part.asking = undefined
    }
  }

  #part(key: string): Part {
    const known = this.#parts.get(key)
    if (known !== undefined) return known
    const part: Part = { held: 0, used: 0, usedSinceSweep: true, asking: undefined }
    this.#parts.set(key, part)
    return part
  }
}
