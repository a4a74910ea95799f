// Paths below the log's directory.

export const LOCK_FILE = '.svc-lock'
export const PUBLIC_KEYS_FILE = 'public-keys'
export const INTENTS_FOLDER = 'intents'
/** Names the parent of the log that the next writer begins. */
export const FORK_FILE = '.svc-fork'
export const JOURNAL_FILE = 'audit.journal'

// Nearly all records need the same day's path.
let lastDaily = { day: '', path: '' }

export function dailyLog(day: string): string {
  if (day !== lastDaily.day) lastDaily = { day, path: `audit-${day}.ndjson` }
  return lastDaily.path
}

export const SEAL_LOCK_FILE = '.svc-seal-lock'

export function checkpointFile(day: string): string {
  return `audit-${day}.checkpoint`
}

/** The roots that stand for a removed day's lines. */
export function coverFile(day: string): string {
  return `audit-${day}.cover`
}

export function rawLog(day: string): string {
  return `raw/raw-${day}.ndjson`
}

function dayIn(pattern: RegExp): (name: string) => string | undefined {
  return (name) => pattern.exec(name)?.[1]
}

// The days of the files' names; undefined for other names.
export const dayOfDailyLog = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.ndjson$/)
export const dayOfCheckpointFile = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.checkpoint$/)
export const dayOfCoverFile = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.cover$/)
export const dayOfRawLog = dayIn(/^raw-(\d{4}-\d\d-\d\d)\.ndjson$/)
