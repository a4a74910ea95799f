// Restores the directory of a log from its uploaded objects, for verification and reading.

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import { checkpointFile, coverFile, dailyLog, JOURNAL_FILE } from '../format/paths.js'
import { objectIn } from '../format/stored-record.js'
import { newestCheckpoint } from '../seal/checkpoint-file.js'
import { endOfLeaf, readGenesis } from '../seal/journal-file.js'
import { digestToBase64 } from '../tree/journal-codec.js'
import { shortLogId } from '../tree/record-place.js'
import { journalFacts } from '../verify/journal-facts.js'
import { joinFile, type NamedObject, objectsByFile } from './joined-file.js'
import type { ObjectSource } from './object-source.js'

export interface FetchOptions {
  /** The log's id, or its first 16 digits; needed where the owner has several logs. */
  logId?: string
  /** Called for each file that is complete. */
  onFile?: (path: string, bytes: number) => void
}

export interface FetchReport {
  readonly files: number
  readonly objects: number
  readonly bytes: number
  /** The newest checkpoint; absent where the store has none. */
  readonly head?: { readonly origin: string; readonly size: number; readonly root: string }
  /** What is missing or wrong; `verifyLog` says what that means for the log. */
  readonly problems: readonly string[]
}

type Files = ReadonlyMap<string, readonly NamedObject[]>

/**
 * Writes the log's daily files, journal, checkpoints, covers and tree into the new or empty directory `dir`. Checkpoints
 * are listed first and logs last, so that what a checkpoint covers is there.
 *
 * @throws {AuditError} `read_failed` where the directory has files, the owner has no log or several, or a request fails.
 */
export async function fetchLog(
  source: ObjectSource,
  dir: string,
  options: FetchOptions = {},
): Promise<FetchReport> {
  if (existsSync(dir) && readdirSync(dir).length > 0) {
    throw new AuditError('read_failed', `${dir} is not empty`)
  }
  const prefix = await source.prefix()
  const checkpoints = await objectsByFile(source, `${prefix}checkpoints/`)
  const journals = await objectsByFile(source, `${prefix}journal/`)
  const journal = chosenJournal(journals, options.logId)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const restored = new RestoredLog(source, dir, options)
  await restored.add(JOURNAL_FILE, journal?.objects ?? [])
  const genesis = readGenesis(nodeFileSystem, dir)
  const id = genesis && shortLogId(genesis.log_id)
  const isOfOrigin = (bytes: Buffer) => genesis !== undefined && bytes.indexOf(`${genesis.origin}\n`) === 0
  await restored.addDays(checkpoints, checkpointFile, isOfOrigin)
  const covers = await coversOf(dir)
  const isCover = (bytes: Buffer) => covers.has(createHash('sha256').update(bytes).digest('base64'))
  await restored.addDays(await objectsByFile(source, `${prefix}covers/`), coverFile, isCover)
  await restored.addDays(await objectsByFile(source, `${prefix}ingest/`), dailyLog, (bytes) =>
    isOfLog(bytes, id),
  )
  for (const [file, objects] of await objectsByFile(source, `${prefix}tree/`)) {
    const [, owner, level, part] = /\/audit-([0-9a-f]{16})-(\d+)-(\d+)$/.exec(file) ?? []
    if (owner !== undefined && owner === id) await restored.add(`tree/${level}/${part}`, objects)
  }
  const head = genesis && endAtNewestCheckpoint(dir, genesis.origin)
  return { ...restored.totals, ...(head === undefined ? {} : { head }) }
}

/** The objects of the journal of one log; undefined where logs of this owner have none. */
function chosenJournal(
  journals: Files,
  logId: string | undefined,
): { readonly objects: readonly NamedObject[] } | undefined {
  const byLog = new Map<string, readonly NamedObject[]>()
  for (const [file, objects] of journals) {
    const id = /\/audit-([0-9a-f]{16})$/.exec(file)?.[1]
    if (id !== undefined) byLog.set(id, objects)
  }
  const known = [...byLog.keys()].sort().join(', ')
  if (logId !== undefined) {
    const objects = byLog.get(shortLogId(logId))
    if (objects === undefined) {
      throw new AuditError('read_failed', `there is no log ${logId}, only: ${known || 'none'}`)
    }
    return { objects }
  }
  if (byLog.size > 1) {
    throw new AuditError('read_failed', `there are several logs, name one of them: ${known}`)
  }
  const [objects] = byLog.values()
  return objects && { objects }
}

/** The hashes of covers that the journal states. */
async function coversOf(dir: string): Promise<ReadonlySet<string>> {
  const path = join(dir, JOURNAL_FILE)
  if (!existsSync(path)) return new Set()
  const { removals } = await journalFacts(path, Number.POSITIVE_INFINITY, [])
  return new Set([...removals.values()].map(({ line }) => line.cover))
}

/** A log without journal has records without `log_id`. */
function isOfLog(bytes: Buffer, id: string | undefined): boolean {
  return objectIn(bytes.subarray(0, bytes.indexOf(0x0a)))?.['log_id'] === id
}

/** Removes journal lines that were uploaded after the checkpoints were listed. */
function endAtNewestCheckpoint(dir: string, origin: string): FetchReport['head'] {
  const head = newestCheckpoint(nodeFileSystem, dir, origin)?.head
  const end = head && endOfLeaf(nodeFileSystem, dir, head.size - 1)
  if (head === undefined || end === undefined) return undefined
  truncateSync(join(dir, JOURNAL_FILE), end)
  return { origin, size: head.size, root: digestToBase64(head.root) }
}

class RestoredLog {
  readonly #source: ObjectSource
  readonly #dir: string
  readonly #options: FetchOptions
  readonly #problems: string[] = []
  #files = 0
  #objects = 0
  #bytes = 0

  constructor(source: ObjectSource, dir: string, options: FetchOptions) {
    this.#source = source
    this.#dir = dir
    this.#options = options
  }

  get totals(): Pick<FetchReport, 'files' | 'objects' | 'bytes' | 'problems'> {
    return { files: this.#files, objects: this.#objects, bytes: this.#bytes, problems: this.#problems }
  }

  async addDays(
    files: Files,
    pathOf: (day: string) => string,
    belongs: (bytes: Buffer) => boolean,
  ): Promise<void> {
    for (const [file, objects] of files) {
      const day = /\/audit-(\d{4}-\d\d-\d\d)$/.exec(file)?.[1]
      if (day !== undefined) await this.add(pathOf(day), objects, belongs)
    }
  }

  async add(
    path: string,
    objects: readonly NamedObject[],
    belongs: (bytes: Buffer) => boolean = () => true,
  ): Promise<void> {
    if (objects.length === 0) return
    const joined = await joinFile(this.#source, objects, { dir: this.#dir, path }, belongs)
    this.#problems.push(...joined.problems)
    if (joined.objects === 0) {
      rmSync(join(this.#dir, path))
      return
    }
    this.#files++
    this.#objects += joined.objects
    this.#bytes += joined.bytes
    this.#options.onFile?.(path, joined.bytes)
  }
}
