// Time of a host whose wall clock may be set: the monotonic clock, which all processes of the host share, does not move
// with it, and begins anew when the host boots.
import { readFileSync } from 'node:fs'
import type { Clock } from '../../plugin/tokens.js'

export interface HostInstant {
  /** Milliseconds since the epoch. */
  readonly wall: number
  /** Milliseconds of the monotonic clock. */
  readonly steady: number
  /** Identifies the boot since which `steady` counts. */
  readonly boot: number
}

export function isSameBoot(from: HostInstant, to: HostInstant): boolean {
  return from.boot === to.boot && to.steady >= from.steady
}

/** Milliseconds from one instant to a later one; after a boot, what the wall clock shows. */
export function elapsed(from: HostInstant, to: HostInstant): number {
  return isSameBoot(from, to) ? to.steady - from.steady : Math.max(0, to.wall - from.wall)
}

/** The record in which a database keeps the time. */
interface TimeRecord {
  get(key: typeof TIME): string | undefined
  put(key: typeof TIME, value: string): unknown
}

const TIME = '#time'

/** How often the time is stored at least, milliseconds: how far it may go back at a boot. */
const STORED_EVERY_MS = 60_000

/**
 * The time of a store, the same for all processes of the host: the wall clock's when the store was new, which then passes with
 * the monotonic clock, so that nothing ends, or lasts, because the wall clock is set. Over a boot it follows the wall clock.
 */
export class StoreTime {
  #record: TimeRecord
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #last: HostInstant | undefined

  constructor(record: TimeRecord, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#record = record
    this.#clock = clock
  }

  /** Milliseconds since the epoch. */
  now(): number {
    const at = this.#instant
    // Any instant of this boot serves.
    if (this.#last === undefined || !isSameBoot(this.#last, at)) this.#last = this.#stored
    return this.#last === undefined ? at.wall : this.#last.wall + elapsed(this.#last, at)
  }

  /** To be called in transactions that write. */
  keep(): void {
    const at: HostInstant = { ...this.#instant, wall: this.now() }
    const { steady, boot } = this.#last ?? { steady: Number.NEGATIVE_INFINITY, boot: at.boot }
    if (boot === at.boot && at.steady >= steady && at.steady - steady < STORED_EVERY_MS) return
    this.#record.put(TIME, [at.wall, at.steady, at.boot].join(' '))
    this.#last = at
  }

  get #instant(): HostInstant {
    return { wall: this.#clock.now(), steady: this.#clock.monotonic(), boot: thisBoot }
  }

  get #stored(): HostInstant | undefined {
    const [wall, steady, boot] = (this.#record.get(TIME) ?? '').split(' ').map(Number)
    if (wall === undefined || steady === undefined || boot === undefined) return undefined
    return { wall, steady, boot }
  }
}

/** Counts of other boots are not comparable; 0 where the system does not name the boot. */
export const thisBoot = bootNumber()

function bootNumber(): number {
  try {
    const id = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').replaceAll('-', '')
    return Number.parseInt(id.slice(0, 13), 16) || 0
  } catch (error) {
    // Another system: a clock that reads less than before shows that it booted.
    if (error instanceof Error) return 0
    throw error
  }
}
