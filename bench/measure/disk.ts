// The cost of durability on this disk: one small append with a sync, without other load.
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { quantile } from './statistics.js'

const APPENDS = 200
const RECORD = Buffer.alloc(1024, 0x61)

/** Milliseconds of `fdatasync` after each of 200 appends of 1 KiB, as p50 and p95. */
export async function fdatasyncTimes(dir: string): Promise<{ p50: number; p95: number }> {
  const path = join(dir, 'fdatasync-probe')
  const file = await open(path, 'a')
  const times: number[] = []
  try {
    for (let i = 0; i < APPENDS; i++) {
      await file.write(RECORD)
      const start = performance.now()
      await file.datasync()
      times.push(performance.now() - start)
    }
  } finally {
    await file.close()
    await rm(path)
  }
  return { p50: quantile(times, 0.5), p95: quantile(times, 0.95) }
}
