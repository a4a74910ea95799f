// Restores the directory of a log from its uploaded objects, for verification and reading, and names the objects that are
// not the log's.

import { existsSync, mkdirSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { defined } from '@svc/core/json'
import { nodeFileSystem } from '../../files/file-system.js'
import type { Head } from '../../format/checkpoint.js'
import { digestToBase64 } from '../../format/digest.js'
import { AuditError } from '../../format/errors.js'
import { checkpointFile, coverFile, dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { shortLogId } from '../../format/stored-record.js'
import { parseTreePath } from '../../format/tree-layout.js'
import type { TrustedKey } from '../../format/verifier.js'
import { newestCheckpoint } from '../../tree/checkpoint-file.js'
import { endOfLeaf, readGenesis } from '../../tree/journal-file.js'
import { KeyHistory } from '../../tree/key-history.js'
import { factsOfLog, type Removal } from '../verify/journal-facts.js'
import { type FileJudge, joinFile, type NamedObject, objectsByFile } from './joined-file.js'
import { checkpointJudge, coverJudge, DailyJudge, JournalJudge, SealedLeaves, treeJudge } from './judges.js'
import type { ObjectSource } from './object-source.js'

export interface FetchOptions {
  /** The log's id, or its first 16 digits; needed if the owner has several logs. */
  logId?: string
  /** Public keys of the log; without them a journal that another key has begun is taken for the log's. */
  keys?: readonly TrustedKey[]
  /** Called after each object, with the bytes of the objects so far and of all. */
  onProgress?: (progress: { readonly bytes: number; readonly totalBytes: number }) => void
}

export interface FetchReport {
  readonly files: number
  readonly objects: number
  readonly bytes: number
  /** The newest checkpoint; absent if the store has none. */
  readonly head?: { readonly origin: string; readonly size: number; readonly root: string }
  /** The missing or wrong files; `verifyLog` says what that means for the log. */
  readonly problems: readonly string[]
}

type Files = ReadonlyMap<string, readonly NamedObject[]>

/**
 * Writes the log's journal, checkpoints, covers, tree and daily files into the new or empty directory `dir`. Checkpoints
 * are listed first and logs last, so that what a checkpoint covers is there.
 *
 * @throws {AuditError} `read_failed` if the directory has files, the owner has no log or several, or a request fails.
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
  const journal = chosenJournal(await objectsByFile(source, `${prefix}journal/`), options.logId)
  const coverFiles = await objectsByFile(source, `${prefix}covers/`)
  const tree = treeFiles(await objectsByFile(source, `${prefix}tree/`), journal?.id)
  const logs = await objectsByFile(source, `${prefix}ingest/`)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const files = [checkpoints, coverFiles, tree, logs].flatMap((listed) => [...listed.values()])
  const restored = new RestoredLog(
    source,
    dir,
    progressOver([journal?.objects ?? [], ...files].flat(), options),
  )
  if (journal !== undefined) {
    await restored.add(JOURNAL_FILE, journal.objects, new JournalJudge(journal.id, options.keys))
  }
  const genesis = readGenesis(nodeFileSystem, dir)
  const id = genesis && shortLogId(genesis.log_id)
  const { keys, removals } = await statedBy(dir, options.keys)
  if (genesis !== undefined) {
    await restored.addDays(checkpoints, checkpointFile, () => checkpointJudge(genesis.origin, keys))
  }
  const covers = coverJudge(new Set([...removals.values()].map(({ line }) => line.cover)))
  await restored.addDays(coverFiles, coverFile, () => covers)
  for (const [path, objects] of genesis === undefined ? [] : tree) {
    await restored.add(path, objects, treeJudge)
  }
  const newest = genesis && newestCheckpoint(nodeFileSystem, dir, genesis.origin)?.head
  const sealed = new SealedLeaves(dir, newest)
  await restored.addDays(logs, dailyLog, (day) => {
    return new DailyJudge({ day, logId: id, sealed }, keys)
  })
  const head = newest && endAt(dir, newest)
  return { ...restored.totals, ...defined({ head }) }
}

interface ChosenJournal {
  readonly id: string
  readonly objects: readonly NamedObject[]
}

/** The objects of the journal of one log, in any folder; undefined if logs of this owner have none. */
function chosenJournal(journals: Files, logId: string | undefined): ChosenJournal | undefined {
  const byLog = new Map<string, readonly NamedObject[]>()
  for (const [file, objects] of journals) {
    const id = /\/audit-([0-9a-f]{16})$/.exec(file)?.[1]
    if (id !== undefined) byLog.set(id, [...(byLog.get(id) ?? []), ...objects])
  }
  const known = [...byLog.keys()].sort().join(', ')
  if (logId !== undefined) {
    const id = shortLogId(logId)
    const objects = byLog.get(id)
    if (objects === undefined) {
      throw new AuditError('read_failed', `there is no log ${logId}, only: ${known || 'none'}`)
    }
    return { id, objects }
  }
  if (byLog.size > 1) {
    throw new AuditError('read_failed', `there are several logs, name one of them with --log: ${known}`)
  }
  const [only] = byLog
  return only && { id: only[0], objects: only[1] }
}

/** The files of the tree of the log `id`, in any folder. */
function treeFiles(files: Files, id: string | undefined): Files {
  const byPath = new Map<string, readonly NamedObject[]>()
  for (const [file, objects] of files) {
    const [, owner, level, part] = /\/audit-([0-9a-f]{16})-(\d+)-(\d+)$/.exec(file) ?? []
    const path = `tree/${level}/${part}`
    if (owner === undefined || owner !== id || parseTreePath(path) === undefined) continue
    byPath.set(path, [...(byPath.get(path) ?? []), ...objects])
  }
  return byPath
}

/** The keys and removals that the restored journal states. */
async function statedBy(dir: string, given: readonly TrustedKey[] | undefined) {
  const facts = await factsOfLog(dir)
  if (facts === undefined)
    return { keys: KeyHistory.ofTrusted(given ?? []), removals: new Map<string, Removal>() }
  const { keys, removals } = facts
  return { keys: given === undefined ? keys : keys.trustedBy(given), removals }
}

/** Removes journal lines that were uploaded after the checkpoints were listed. */
function endAt(dir: string, { origin, size, root }: Head): FetchReport['head'] {
  const end = endOfLeaf(nodeFileSystem, dir, size - 1)
  if (end === undefined) return undefined
  truncateSync(join(dir, JOURNAL_FILE), end)
  return { origin, size, root: digestToBase64(root) }
}

/** Takes the bytes of each object that is read. */
type OnBytes = (more: number) => void

function progressOver(objects: readonly NamedObject[], { onProgress }: FetchOptions): OnBytes {
  const totalBytes = objects.reduce((sum, { start, end }) => sum + end - start, 0)
  let bytes = 0
  return (more) => {
    bytes += more
    onProgress?.({ bytes, totalBytes })
  }
}

class RestoredLog {
  readonly #source: ObjectSource
  readonly #dir: string
  readonly #onBytes: OnBytes
  readonly #problems: string[] = []
  #files = 0
  #objects = 0
  #bytes = 0

  constructor(source: ObjectSource, dir: string, onBytes: OnBytes) {
    this.#source = source
    this.#dir = dir
    this.#onBytes = onBytes
  }

  get totals(): Pick<FetchReport, 'files' | 'objects' | 'bytes' | 'problems'> {
    return { files: this.#files, objects: this.#objects, bytes: this.#bytes, problems: this.#problems }
  }

  async addDays(
    files: Files,
    pathOf: (day: string) => string,
    judgeOf: (day: string) => FileJudge,
  ): Promise<void> {
    for (const [file, objects] of files) {
      const [, folder, day] = /\/([^/]+)\/audit-(\d{4}-\d\d-\d\d)$/.exec(file) ?? []
      if (day === undefined) continue
      if (folder === day) await this.add(pathOf(day), objects, judgeOf(day))
      else
        this.#problems.push(
          ...objects.map(({ key }) => `${key} is in the folder of another day: it is left out`),
        )
    }
  }

  async add(path: string, objects: readonly NamedObject[], judge: FileJudge): Promise<void> {
    if (objects.length === 0) return
    const joined = await joinFile(
      this.#source,
      objects,
      { dir: this.#dir, path, onBytes: this.#onBytes },
      judge,
    )
    this.#problems.push(...joined.problems)
    if (joined.objects === 0) {
      rmSync(join(this.#dir, path))
      return
    }
    this.#files++
    this.#objects += joined.objects
    this.#bytes += joined.bytes
  }
}
