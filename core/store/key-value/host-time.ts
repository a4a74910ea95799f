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

/** Milliseconds from one instant to a later one; after a boot, what the wall clock shows. */
export function elapsed(from: HostInstant, to: HostInstant): number {
  const isSameBoot = from.boot === to.boot && to.steady >= from.steady
  return isSameBoot ? to.steady - from.steady : Math.max(0, to.wall - from.wall)
}

/** The table in which a store keeps it, under its key. */
interface TimeTable {
  get(key: string): string | undefined
  put(key: string, value: string): void
}
const TIME = '#time'

/** How often the time is stored at least, milliseconds: how far it may go back at a boot. */
const STORED_EVERY_MS = 60_000
const DAY_MS = 86_400_000

/**
 * The time of a store, the same for all processes of the host: the wall clock's when the store was new, which then passes with
 * the monotonic clock, so that nothing ends, or lasts, because the wall clock is set. Over a boot it follows the wall clock.
 */
export class StoreTime {
  #table: TimeTable
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #last: HostInstant | undefined
  /** How far the wall clock is ahead of the time that has passed. */
  #aheadMs: number | undefined
  #jump: { readonly text: string; readonly at: number } | undefined

  constructor(table: TimeTable, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#table = table
    this.#clock = clock
  }

  /** Milliseconds since the epoch. */
  now(): number {
    const steady = this.#clock.monotonic()
    // Any instant of this boot serves.
    if (this.#last?.boot === thisBoot && steady >= this.#last.steady)
      return this.#last.wall + steady - this.#last.steady
    const [wall, since, boot] = (this.#table.get(TIME) ?? '').split(' ').map(Number)
    this.#last =
      wall === undefined || since === undefined || boot === undefined
        ? undefined
        : { wall, steady: since, boot }
    const at = { wall: this.#clock.now(), steady, boot: thisBoot }
    return this.#last === undefined ? at.wall : this.#last.wall + elapsed(this.#last, at)
  }

  /** To be called in transactions that write; `now` is the time of the transaction. */
  keep(now: number): void {
    const { wall = Number.NEGATIVE_INFINITY, boot } = this.#last ?? {}
    if (boot === thisBoot && now >= wall && now - wall < STORED_EVERY_MS) return
    this.#last = { wall: now, steady: this.#clock.monotonic(), boot: thisBoot }
    this.#table.put(TIME, [now, this.#last.steady, thisBoot].join(' '))
  }

  /** The time for windows, which follow the wall clock; none begins anew whose count may have been removed. */
  ofWindows(now: number): number {
    const wall = this.#clock.now()
    const oldest = now - DAY_MS
    const ahead = wall - now - (this.#aheadMs ?? wall - now)
    this.#aheadMs = wall - now
    const time = (instant: number) => new Date(instant).toISOString()
    const warn = (what: string) => {
      this.#jump = { text: `the clock of this host ${what}`, at: now }
    }
    if (wall < oldest) {
      const day = time(oldest).slice(0, 10)
      warn(`(${time(wall)}) was set back: calls count for ${day}, whose counts have begun`)
    } else if (ahead >= DAY_MS) {
      const days = Math.round(ahead / DAY_MS)
      warn(`was set ahead by ${days} days, to ${time(wall)}: a new day of calls has begun`)
    }
    return Math.max(wall, oldest)
  }

  /** About a clock that was set on the last day. */
  warning(): string | undefined {
    if (this.#jump !== undefined && this.now() - this.#jump.at > DAY_MS) this.#jump = undefined
    return this.#jump?.text
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
