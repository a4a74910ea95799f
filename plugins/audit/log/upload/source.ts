// The files that are uploaded, their datasets and their keys.

import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { pathSegment } from '@svc/core/json'
import { namesIn, nodeFileSystem } from '../files/file-system.js'
import {
  dayOfCheckpointFile,
  dayOfCoverFile,
  dayOfDailyLog,
  dayOfRawLog,
  JOURNAL_FILE,
} from '../format/paths.js'
import { shortLogId } from '../format/stored-record.js'
import { HASH_BYTES, parseTreePath, TREE_FOLDER } from '../format/tree-layout.js'
import { readGenesis } from '../tree/journal-file.js'
import type { UploadMetadata } from './presign.js'

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

/**
 * Every file of every dataset, older days first. There can be thousands of agents' files, so `days` limits them to those that
 * may have grown.
 */
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

export type UploadMode = 'audit' | 'agent' | 'raw' | 'tree' | 'cover' | 'journal' | 'checkpoint'

/** A file of the log to upload. */
export interface UploadSource {
  /** Relative to the log's directory, `/` between segments: its key in the state file. */
  readonly path: string
  readonly mode: UploadMode
  /** `YYYY-MM-DD`. */
  readonly date: string
  /** The folder of its objects below the client's version. */
  readonly folder: string
  /** Its name without the ending. */
  readonly stem: string
  /** Bytes of an entry; undefined for a file of lines. */
  readonly entryBytes?: number
}

/** The log that files without a day belong to. */
export interface SourceLog {
  readonly logId: string
  /** The day of its genesis. */
  readonly date: string
}

const AGENT_LOG = /^agents\/([A-Za-z0-9._%-]+)\/(\d{4}-\d\d-\d\d)\/([A-Za-z0-9._%-]+)\.ndjson$/

/** The source at `path`; undefined for a file of no dataset: locks, keys, torn lines, the state itself. */
export function sourceOf(path: string, log: SourceLog | undefined): UploadSource | undefined {
  const daily = dayOfDailyLog(path)
  if (daily !== undefined) return ofDay('audit', 'ingest', `audit-${daily}`, path, daily)
  const sealed = dayOfCheckpointFile(path)
  if (sealed !== undefined) return ofDay('checkpoint', 'checkpoints', `audit-${sealed}`, path, sealed)
  const covered = dayOfCoverFile(path)
  if (covered !== undefined) {
    return { ...ofDay('cover', 'covers', `audit-${covered}`, path, covered), entryBytes: HASH_BYTES }
  }
  const raw = path.startsWith('raw/') ? dayOfRawLog(path.slice('raw/'.length)) : undefined
  if (raw !== undefined) return ofDay('raw', 'raw', `raw-${raw}`, path, raw)
  const [, node, date, agent] = AGENT_LOG.exec(path) ?? []
  // The writer has encoded both as path segments.
  if (node !== undefined && date !== undefined && agent !== undefined) {
    return ofDay('agent', `agents/${node}`, agent, path, date)
  }
  return log === undefined ? undefined : ofLog(path, log)
}

/** The objects of files without a day share the folder of the genesis's day, and name their log. */
function ofLog(path: string, { logId, date }: SourceLog): UploadSource | undefined {
  const id = shortLogId(logId)
  if (path === JOURNAL_FILE) return ofDay('journal', 'journal', `audit-${id}`, path, date)
  const place = parseTreePath(path)
  if (place === undefined) return undefined
  const stem = `audit-${id}-${place.level}-${place.file}`
  return { ...ofDay('tree', 'tree', stem, path, date), entryBytes: HASH_BYTES }
}

function ofDay(mode: UploadMode, folder: string, stem: string, path: string, date: string): UploadSource {
  return { path, mode, date, folder: `${folder}/${date}`, stem }
}

/** Bytes `[start, end)` of a file: whole lines or entries. */
export interface Range {
  readonly start: number
  readonly end: number
  /** SHA-256 of those bytes, hex. */
  readonly sha256: string
}

/** Depends only on the bytes and their position, so that a repeated upload writes the same object. */
export function objectKey(metadata: UploadMetadata, source: UploadSource, range: Range): string {
  return `${keyPrefix(metadata, source)}${range.start}-${range.end}-${range.sha256.slice(0, 16)}.ndjson`
}

/** The start of the keys of all objects of a file. */
export function keyPrefix(metadata: UploadMetadata, source: UploadSource): string {
  return `${folderPrefix(metadata, source)}${source.stem}-`
}

/** The start of the keys of all objects in the folder of a file. */
export function folderPrefix(metadata: UploadMetadata, { folder }: UploadSource): string {
  return `${ownerPrefix(metadata)}${folder}/`
}

/** The start of the keys of all objects of an owner. */
export function ownerPrefix({ tenant, env, clientName, clientVersion }: UploadMetadata): string {
  const names = ['tenants', pathSegment(tenant), pathSegment(env), 'clients', pathSegment(clientName)]
  return `${[...names, pathSegment(clientVersion)].join('/')}/`
}

/** An object of a file, by its key. */
export interface ObjectName {
  /** Its key without range and hash: the same for all objects of a file. */
  readonly file: string
  readonly start: number
  readonly end: number
  /** The first 16 hex digits of the SHA-256 of its bytes. */
  readonly digest: string
}

/** Undefined for an object that no writer has named. */
export function parseObjectKey(key: string): ObjectName | undefined {
  const [, file, start, end, digest] = /^(.+)-(\d{1,16})-(\d{1,16})-([0-9a-f]{16})\.ndjson$/.exec(key) ?? []
  if (file === undefined || digest === undefined) return undefined
  const range = { start: Number(start), end: Number(end) }
  return Number.isSafeInteger(range.end) && range.start < range.end ? { file, ...range, digest } : undefined
}
