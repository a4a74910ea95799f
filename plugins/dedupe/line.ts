// Duplicates that wait for the first call to end. Of those in one process one asks the store, and all hear the answer.
import type { DedupeClaim, DedupeStanding } from '@svc/core'
import type { Patience } from './patience.js'

/** Milliseconds between two looks, at first and at most. */
const SOON = 5
const LATER = 200

const inFlight: DedupeStanding = { state: 'in_flight' }

export interface LineStore {
  claim(claim: DedupeClaim): Promise<DedupeStanding>
  release(claim: DedupeClaim): Promise<void>
}

export class Line {
  #store: LineStore
  #asking = new Map<string, Promise<DedupeStanding>>()
  #sleeping = new Map<string, () => void>()

  constructor(store: LineStore) {
    this.#store = store
  }

  /**
   * How the key stands when the call under it has ended: the first in line may have got it. In flight: the patience
   * was over before.
   */
  async wait(claim: DedupeClaim, patience: Patience): Promise<DedupeStanding> {
    const line = lineOf(claim)
    while (!patience.isOver) {
      const asking = this.#asking.get(line)
      if (asking === undefined) return this.#lead(line, claim, patience)
      const standing = await Promise.race([asking, patience.ended])
      if (standing === undefined) break
      // A claim is its leader's alone, and a leader who left may have been told nothing.
      if (standing.state !== 'claimed' && standing.state !== 'in_flight') return standing
    }
    return inFlight
  }

  /** The call of this claim has ended in this process: those in line need not wait for their next look. */
  wake(claim: DedupeClaim): void {
    this.#sleeping.get(lineOf(claim))?.()
  }

  async #lead(line: string, claim: DedupeClaim, patience: Patience): Promise<DedupeStanding> {
    const asking = this.#ask(line, claim, patience)
    this.#asking.set(line, asking)
    try {
      return await asking
    } finally {
      this.#asking.delete(line)
    }
  }

  async #ask(line: string, claim: DedupeClaim, patience: Patience): Promise<DedupeStanding> {
    for (let pause = SOON; ; pause = Math.min(LATER, pause * 1.5)) {
      await this.#sleep(line, pause, patience)
      if (patience.isOver) return inFlight
      const standing = await this.#store.claim(claim)
      if (standing.state === 'in_flight') continue
      if (standing.state !== 'claimed' || !patience.isOver) return standing
      await this.#store.release(claim)
      return inFlight
    }
  }

  async #sleep(line: string, ms: number, patience: Patience): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const pause = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
      this.#sleeping.set(line, resolve)
    })
    await Promise.race([pause, patience.ended])
    clearTimeout(timer)
    this.#sleeping.delete(line)
  }
}

function lineOf({ key, fingerprint }: DedupeClaim): string {
  return `${key} ${fingerprint}`
}
