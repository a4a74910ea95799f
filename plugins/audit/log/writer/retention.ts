// Removes files whose day is older than the retention allows. Call under the lock.

import { join } from 'node:path'
import { type FileSystem, namesIn, sizeOf } from '../files/file-system.js'
import { daysBetween } from '../format/day.js'
import { dayOfCheckpointFile, dayOfDailyLog, dayOfRawLog } from '../format/paths.js'
import { NEWEST_FILES } from '../tree/checkpoint-file.js'

/** Paths, relative to `dir`, of files more than `retentionDays` days older than `today`. */
export function expired(port: FileSystem, dir: string, today: string, retentionDays: number): string[] {
  const old = (day: string | undefined) => day !== undefined && daysBetween(day, today) > retentionDays
  const names = namesIn(port, dir)
  const paths = names.filter((name) => old(dayOfDailyLog(logOf(name))))
  // The newest checkpoint is needed however old it is.
  const checkpoints = names.filter((name) => dayOfCheckpointFile(name) !== undefined).sort()
  paths.push(...checkpoints.slice(0, -NEWEST_FILES).filter((name) => old(dayOfCheckpointFile(name))))
  for (const name of namesIn(port, join(dir, 'raw')))
    if (old(dayOfRawLog(logOf(name)))) paths.push(`raw/${name}`)
  for (const node of namesIn(port, join(dir, 'agents'))) {
    for (const day of namesIn(port, join(dir, 'agents', node))) {
      if (/^\d{4}-\d\d-\d\d$/.test(day) && old(day)) paths.push(`agents/${node}/${day}`)
    }
  }
  return paths
}

/** Those of `paths` that are completely uploaded; `uploaded` returns how many bytes of a file are. */
export function uploadedOnly(
  port: FileSystem,
  dir: string,
  paths: readonly string[],
  uploaded: (path: string) => number,
): string[] {
  const isWhole = (path: string) =>
    path.startsWith('agents/')
      ? namesIn(port, join(dir, path)).every(
          (name) => uploaded(`${path}/${name}`) === sizeOf(port, join(dir, path, name)),
        )
      : uploaded(path) === sizeOf(port, join(dir, path))
  // A torn tail was never acknowledged, and is not uploaded; it is removed with its log.
  const waiting = new Set(paths.filter((path) => path === logOf(path) && !isWhole(path)))
  return paths.filter((path) => !waiting.has(logOf(path)))
}

/** The log that a torn tail belongs to; another file belongs to itself. */
function logOf(path: string): string {
  return path.replace(/\.torn-[\w-]+$/, '')
}

/** The files of agents first: without their daily log nothing would show that they are not planted. */
export function remove(port: FileSystem, dir: string, paths: readonly string[]): void {
  const order = (path: string) => (path.startsWith('agents/') ? 0 : 1)
  for (const path of paths.toSorted((a, b) => order(a) - order(b))) {
    port.rmSync(join(dir, path), { recursive: path.startsWith('agents/'), force: true })
  }
  const nodes = new Set(
    paths.filter((path) => path.startsWith('agents/')).map((path) => path.split('/')[1] ?? ''),
  )
  for (const node of nodes) {
    const folder = join(dir, 'agents', node)
    if (namesIn(port, folder).length === 0) port.rmdirSync(folder)
  }
}
