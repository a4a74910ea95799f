// Calls over time in constant memory: parts of equal length that double when the time outgrows them.

export interface TimelinePart {
  /** ISO 8601 instant at which the part begins. */
  readonly from: string
  readonly allowed: number
  readonly denied: number
}

const PARTS = 60
const SHORTEST_MS = 1_000

export class Timeline {
  #partMs = SHORTEST_MS
  /** By number of the part since the epoch. */
  #parts = new Map<number, { allowed: number; denied: number }>()
  #first = Number.POSITIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY

  /** `ms`: milliseconds since the epoch. */
  add(ms: number, isDenied: boolean): void {
    const number = Math.floor(ms / this.#partMs)
    this.#first = Math.min(this.#first, number)
    this.#last = Math.max(this.#last, number)
    this.#count(number, isDenied ? 0 : 1, isDenied ? 1 : 0)
    while (this.#last - this.#first >= PARTS) this.#double()
  }

  #count(number: number, allowed: number, denied: number): void {
    const part = this.#parts.get(number)
    if (part === undefined) this.#parts.set(number, { allowed, denied })
    else {
      part.allowed += allowed
      part.denied += denied
    }
  }

  #double(): void {
    const parts = this.#parts
    this.#parts = new Map()
    this.#partMs *= 2
    this.#first = Math.floor(this.#first / 2)
    this.#last = Math.floor(this.#last / 2)
    for (const [number, { allowed, denied }] of parts) this.#count(Math.floor(number / 2), allowed, denied)
  }

  /** Without gaps, at most 60. */
  parts(): TimelinePart[] {
    if (this.#parts.size === 0) return []
    return Array.from({ length: this.#last - this.#first + 1 }, (_, index) => {
      const number = this.#first + index
      const { allowed = 0, denied = 0 } = this.#parts.get(number) ?? {}
      return { from: new Date(number * this.#partMs).toISOString(), allowed, denied }
    })
  }
}
