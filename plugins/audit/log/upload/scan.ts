// Finds the files of a log. There can be thousands of agent files, so usually only the days that may have grown
// are scanned.

import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { namesIn, nodeFileSystem } from '../files/file-system.js'
import { TREE_FOLDER } from '../format/tree-layout.js'
import { readGenesis } from '../tree/journal-file.js'
import { sourceOf, type UploadMode, type UploadSource } from './source.js'

export interface FoundFile {
  readonly source: UploadSource
  readonly size: number
  /** The time of its last write, milliseconds since the epoch. */
  readonly writtenAt: number
}

/** Logs come before the files that refer to them: a reader who reads checkpoints first finds all that they cover. */
export const PHASES: readonly (readonly UploadMode[])[] = [
  ['audit'],
  ['tree', 'cover', 'journal'],
  ['checkpoint'],
  ['raw', 'agent'],
]

/** Every file of every dataset, older days first. `days` limits the agents' files. */
export function scan(dir: string, days?: ReadonlySet<string>): FoundFile[] {
  const paths = [
    ...namesIn(nodeFileSystem, dir),
    ...namesIn(nodeFileSystem, join(dir, 'raw')).map((name) => `raw/${name}`),
  ]
  for (const level of namesIn(nodeFileSystem, join(dir, TREE_FOLDER))) {
    const folder = `${TREE_FOLDER}/${level}`
    for (const name of namesIn(nodeFileSystem, join(dir, folder))) paths.push(`${folder}/${name}`)
  }
  for (const node of namesIn(nodeFileSystem, join(dir, 'agents'))) {
    for (const day of days ?? namesIn(nodeFileSystem, join(dir, 'agents', node))) {
      const folder = `agents/${node}/${day}`
      for (const name of namesIn(nodeFileSystem, join(dir, folder))) paths.push(`${folder}/${name}`)
    }
  }
  const genesis = readGenesis(nodeFileSystem, dir)
  const log = genesis && { logId: genesis.log_id, date: genesis.at.slice(0, 10) }
  const found: FoundFile[] = []
  for (const path of paths) {
    const source = sourceOf(path, log)
    const stat = source && lstatSync(join(dir, path), { throwIfNoEntry: false })
    if (source !== undefined && stat?.isFile()) {
      found.push({ source, size: stat.size, writtenAt: stat.mtimeMs })
    }
  }
  const rank = ({ source }: FoundFile) => `${source.date} ${source.path}`
  return found.sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
}
