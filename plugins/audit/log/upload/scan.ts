// Finds the files of a log. There can be thousands of agent files, so usually only the days that may have grown
// are scanned.

import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { namesIn, nodeFileSystem } from '../files/file-system.js'
import { systemCode } from '../format/errors.js'
import { REMOVALS_FILE } from '../format/paths.js'
import { firstRemovedDay } from '../seal/removals.js'
import { removalsSource, type Source, sourceOf } from './source.js'

export interface FoundFile {
  readonly source: Source
  readonly size: number
}

const ORDER = ['audit', 'checkpoint', 'raw', 'agent'] as const

/** Every file of every dataset: the log first, older days first. `days` limits the agents' files. */
export function scan(dir: string, days?: ReadonlySet<string>): FoundFile[] {
  const paths = [
    ...namesIn(nodeFileSystem, dir),
    ...namesIn(nodeFileSystem, join(dir, 'raw')).map((name) => `raw/${name}`),
  ]
  for (const node of namesIn(nodeFileSystem, join(dir, 'agents'))) {
    for (const day of days ?? namesIn(nodeFileSystem, join(dir, 'agents', node))) {
      const folder = `agents/${node}/${day}`
      for (const name of namesIn(nodeFileSystem, join(dir, folder))) paths.push(`${folder}/${name}`)
    }
  }
  const found: FoundFile[] = []
  for (const path of paths) {
    const source = path === REMOVALS_FILE ? removals(dir) : sourceOf(path)
    const size = source === undefined ? undefined : sizeOf(join(dir, path))
    if (source !== undefined && size !== undefined) found.push({ source, size })
  }
  const rank = ({ source }: FoundFile) => `${ORDER.indexOf(source.mode)} ${source.date} ${source.path}`
  return found.sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
}

/** Undefined while the file has no complete statement. */
function removals(dir: string): Source | undefined {
  const day = firstRemovedDay(nodeFileSystem, dir)
  return day === undefined ? undefined : removalsSource(day)
}

/** Undefined for anything but an existing regular file. */
function sizeOf(path: string): number | undefined {
  try {
    const stat = lstatSync(path)
    return stat.isFile() ? stat.size : undefined
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}
