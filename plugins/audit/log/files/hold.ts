// Holds: days whose records must not be removed, by range or because they have records of a tenant.

import { join } from 'node:path'
import { dailyLog } from '../format/paths.js'
import { type FileSystem, openExisting, READ } from './file-system.js'

export interface Hold {
  /** Holds only days with records of this tenant; absent: every day of the range. */
  readonly tenant?: string | undefined
  /** The first day, `YYYY-MM-DD`; absent: no bound. */
  readonly from?: string | undefined
  /** The last day. */
  readonly to?: string | undefined
}

const CHUNK_BYTES = 131_072

export async function isHeld(
  source: { readonly port: FileSystem; readonly dir: string },
  day: string,
  holds: readonly Hold[],
): Promise<boolean> {
  const ofDay = holds.filter(({ from = '', to = day }) => from <= day && day <= to)
  const tenants = ofDay.flatMap(({ tenant }) => tenant ?? [])
  if (tenants.length < ofDay.length) return true
  return tenants.length > 0 && (await mentions(source, day, tenants))
}

/** Whether the member of one of the tenants occurs; at any depth, because keeping too much does no harm. */
async function mentions(
  { port, dir }: { readonly port: FileSystem; readonly dir: string },
  day: string,
  tenants: readonly string[],
): Promise<boolean> {
  const fd = openExisting(port, join(dir, dailyLog(day)), READ)
  if (fd === undefined) return false
  const members = tenants.map((tenant) => Buffer.from(`"tenant":${JSON.stringify(tenant)}`))
  const overlap = Math.max(...members.map(({ length }) => length)) - 1
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES + overlap)
  try {
    let kept = 0
    for (let offset = 0; ; ) {
      const got = port.readSync(fd, chunk, kept, CHUNK_BYTES, offset)
      if (got === 0) return false
      const seen = chunk.subarray(0, kept + got)
      if (members.some((member) => seen.includes(member))) return true
      offset += got
      kept = Math.min(overlap, seen.length)
      seen.copy(chunk, 0, seen.length - kept)
      await new Promise((resolve) => setImmediate(resolve))
    }
  } finally {
    port.closeSync(fd)
  }
}
