// Removes files whose day is older than the retention allows. Call under the lock.

import { join } from 'node:path'
import { daysBetween } from './day.js'
import type { FileSystem } from './file-system.js'
import { dayOfDailyLog, dayOfRawLog } from './paths.js'

/** Paths, relative to `dir`, of what is more than `retentionDays` days older than `today`. */
export function expired(port: FileSystem, dir: string, today: string, retentionDays: number): string[] {
  const old = (day: string | undefined) => day !== undefined && daysBetween(day, today) > retentionDays
  // What was set aside from a torn tail is as old as the log it lay in.
  const log = (name: string) => name.replace(/\.torn-[\w-]+$/, '')
  const paths = entries(port, dir).filter((name) => old(dayOfDailyLog(log(name))))
  for (const name of entries(port, join(dir, 'raw')))
    if (old(dayOfRawLog(log(name)))) paths.push(`raw/${name}`)
  for (const node of entries(port, join(dir, 'agents'))) {
    for (const day of entries(port, join(dir, 'agents', node))) {
      if (/^\d{4}-\d\d-\d\d$/.test(day) && old(day)) paths.push(`agents/${node}/${day}`)
    }
  }
  return paths
}

export function remove(port: FileSystem, dir: string, paths: readonly string[]): void {
  for (const path of paths) {
    port.rmSync(join(dir, path), { recursive: path.startsWith('agents/'), force: true })
  }
  const nodes = new Set(
    paths.filter((path) => path.startsWith('agents/')).map((path) => path.split('/')[1] ?? ''),
  )
  for (const node of nodes) {
    const folder = join(dir, 'agents', node)
    if (entries(port, folder).length === 0) port.rmdirSync(folder)
  }
}

function entries(port: FileSystem, path: string): string[] {
  try {
    return port.readdirSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR'))
      return []
    throw error
  }
}
