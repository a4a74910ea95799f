// Paths below the log's directory (contract.md §1, File layout).

import { sha256Hex } from '@svc/core/json'

const SAFE = /^[A-Za-z0-9._-]+$/
const MAX_SEGMENT = 200
const KEPT_OF_LONG = 150

/**
 * An id as one path segment: bytes outside `A-Za-z0-9._-` are percent-encoded, and so are `.` and `..` as a whole;
 * the empty id is `%`. A longer id is cut and ends in its SHA-256. Different ids give different segments, since no
 * other id encodes to any of these forms.
 */
export function pathSegment(id: string): string {
  if (id.length <= MAX_SEGMENT && SAFE.test(id) && id !== '.' && id !== '..') return id
  if (id === '') return '%'
  let segment = ''
  for (const byte of Buffer.from(id, 'utf8')) {
    const character = String.fromCharCode(byte)
    segment += SAFE.test(character) ? character : percent(byte)
  }
  if (segment === '.' || segment === '..') return segment.replaceAll('.', percent(0x2e))
  // This form is longer than any encoded id, hence never equal to one.
  return segment.length > MAX_SEGMENT ? `${segment.slice(0, KEPT_OF_LONG)}-${sha256Hex(id)}` : segment
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
}

export const LOCK_FILE = '.svc-lock'
export const PUBLIC_KEYS_FILE = 'public-keys'
export const INTENTS_FOLDER = 'intents'

// Nearly all records need the same day's path.
let lastDaily = { day: '', path: '' }

export function dailyLog(day: string): string {
  if (day !== lastDaily.day) lastDaily = { day, path: `audit-${day}.ndjson` }
  return lastDaily.path
}

export const SEAL_LOCK_FILE = '.svc-seal-lock'
export const REMOVALS_FILE = 'audit-removed.notes'

export function checkpointFile(day: string): string {
  return `audit-${day}.checkpoint`
}

export function treeFile(day: string): string {
  return `audit-${day}.tree`
}

/** The day of `audit-<day>.checkpoint`, else undefined. */
export function dayOfCheckpointFile(name: string): string | undefined {
  return /^audit-(\d{4}-\d\d-\d\d)\.checkpoint$/.exec(name)?.[1]
}

/** The day of `audit-<day>.tree`, else undefined. */
export function dayOfTreeFile(name: string): string | undefined {
  return /^audit-(\d{4}-\d\d-\d\d)\.tree$/.exec(name)?.[1]
}

export function rawLog(day: string): string {
  return `raw/raw-${day}.ndjson`
}

export function agentLog(nodeId: string, day: string, agentRef: string): string {
  return `agents/${pathSegment(nodeId)}/${day}/${pathSegment(agentRef)}.ndjson`
}

/** The day of `audit-<day>.ndjson`, else undefined. */
export function dayOfDailyLog(name: string): string | undefined {
  return /^audit-(\d{4}-\d\d-\d\d)\.ndjson$/.exec(name)?.[1]
}

/** The day of `raw-<day>.ndjson`, else undefined. */
export function dayOfRawLog(name: string): string | undefined {
  return /^raw-(\d{4}-\d\d-\d\d)\.ndjson$/.exec(name)?.[1]
}
