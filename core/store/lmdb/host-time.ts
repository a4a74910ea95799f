// Time of a host whose wall clock may be set: the monotonic clock, which all processes of the host share, does not move
// with it, and begins anew when the host boots.
import { readFileSync } from 'node:fs'

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
