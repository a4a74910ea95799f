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

/**
 * The time of a store, the same for all processes of the host: the wall clock's when the store was new, which then passes with
 * the monotonic clock, so that nothing ends, or lasts, because the wall clock is set. Over a boot it follows the wall clock.
 */
export class StoreTime {
  #table: TimeTable
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #last: HostInstant | undefined

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
    this.#last = this.#stored
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

  get #stored(): HostInstant | undefined {
    const [wall, steady, boot] = (this.#table.get(TIME) ?? '').split(' ').map(Number)
    if (wall === undefined || steady === undefined || boot === undefined) return undefined
    return { wall, steady, boot }
  }
}

const DAY_MS = 86_400_000

/** Windows follow the wall clock, but none begins anew whose count may have been removed. */
export class WindowTime {
  #store: StoreTime
  #clock: Pick<Clock, 'now' | 'monotonic'>
  /** How far the wall clock is ahead of the time that has passed. */
  #aheadMs: number | undefined
  #jump: { readonly text: string; readonly at: number } | undefined

  constructor(store: StoreTime, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#store = store
    this.#clock = clock
  }

  /** Milliseconds since the epoch; `passed` is the time of the store. */
  now(passed: number): number {
    const wall = this.#clock.now()
    const oldest = passed - DAY_MS
    const ahead = wall - passed - (this.#aheadMs ?? wall - passed)
    this.#aheadMs = wall - passed
    const time = (instant: number) => new Date(instant).toISOString()
    if (wall < oldest) {
      const day = time(oldest).slice(0, 10)
      this.#warn(`(${time(wall)}) was set back: calls count for ${day}, whose counts have begun`, passed)
    } else if (ahead >= DAY_MS) {
      const days = Math.round(ahead / DAY_MS)
      this.#warn(`was set ahead by ${days} days, to ${time(wall)}: a new day of calls has begun`, passed)
    }
    return Math.max(wall, oldest)
  }

  /** About a clock that was set on the last day. */
  warning(): string | undefined {
    if (this.#jump !== undefined && this.#store.now() - this.#jump.at > DAY_MS) this.#jump = undefined
    return this.#jump?.text
  }

  #warn(text: string, at: number): void {
    this.#jump = { text: `the clock of this host ${text}`, at }
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
