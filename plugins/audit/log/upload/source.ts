// Which files are uploaded, into which dataset, under which keys.

import { pathSegment } from '@svc/core/json'
import { dayOfCheckpointFile, dayOfDailyLog, dayOfRawLog, REMOVALS_FILE } from '../format/paths.js'
import type { UploadMetadata } from './presign.js'

export type UploadMode = 'audit' | 'agent' | 'raw' | 'checkpoint'

/** A file of the log to upload. */
export interface Source {
  /** Relative to the log's directory, `/` between segments: its key in the state file. */
  readonly path: string
  readonly mode: UploadMode
  /** `YYYY-MM-DD`. */
  readonly date: string
  /** The folder of its objects below the client's version. */
  readonly folder: string
  /** Its name without the ending. */
  readonly stem: string
}

const AGENT_LOG = /^agents\/([A-Za-z0-9._%-]+)\/(\d{4}-\d\d-\d\d)\/([A-Za-z0-9._%-]+)\.ndjson$/

/** Undefined for a file of no dataset: locks, keys, torn lines, the state itself. */
export function sourceOf(path: string): Source | undefined {
  const daily = dayOfDailyLog(path)
  if (daily !== undefined) {
    return { path, mode: 'audit', date: daily, folder: `ingest/${daily}`, stem: `audit-${daily}` }
  }
  const sealed = dayOfCheckpointFile(path)
  if (sealed !== undefined) {
    return {
      path,
      mode: 'checkpoint',
      date: sealed,
      folder: `checkpoints/${sealed}`,
      stem: `audit-${sealed}`,
    }
  }
  const raw = path.startsWith('raw/') ? dayOfRawLog(path.slice('raw/'.length)) : undefined
  if (raw !== undefined) return { path, mode: 'raw', date: raw, folder: `raw/${raw}`, stem: `raw-${raw}` }
  const [, node, date, agent] = AGENT_LOG.exec(path) ?? []
  if (node === undefined || date === undefined || agent === undefined) return undefined
  // The writer has encoded both as path segments.
  return { path, mode: 'agent', date, folder: `agents/${node}/${date}`, stem: agent }
}

/**
 * The statements of removal. Their objects go to the folder of `firstDay`, the first removed day, because the file
 * has no day of its own and its objects should share a folder.
 */
export function removalsSource(firstDay: string): Source {
  return {
    path: REMOVALS_FILE,
    mode: 'checkpoint',
    date: firstDay,
    folder: `checkpoints/${firstDay}`,
    stem: 'audit-removed',
  }
}

/** Bytes `[start, end)` of a file: whole lines. */
export interface Range {
  readonly start: number
  readonly end: number
  /** SHA-256 of those bytes, hex. */
  readonly sha256: string
}

/** Depends only on the bytes and their position, so that a repeated upload writes the same object. */
export function objectKey(metadata: UploadMetadata, source: Source, range: Range): string {
  const { tenant, env, clientName, clientVersion } = metadata
  const owner = ['tenants', pathSegment(tenant), pathSegment(env), 'clients', pathSegment(clientName)]
  const name = `${source.stem}-${range.start}-${range.end}-${range.sha256.slice(0, 16)}.ndjson`
  return [...owner, pathSegment(clientVersion), source.folder, name].join('/')
}
