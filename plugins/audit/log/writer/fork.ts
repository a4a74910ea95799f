// Continues a directory that was copied or damaged: as the same log, or as another one that names it as its parent.
// Both replace the lock file, so that a writer that still runs stops.

import { join } from 'node:path'
import { canonicalize, parseJsonObject } from '@svc/core/json'
import { encodeLock, tryLock, unlock } from '../files/directory-lock.js'
import {
  DIRECTORY_MODE,
  type FileSystem,
  nodeFileSystem,
  openExisting,
  READ_WRITE,
  readTextFile,
  replaceFile,
  syncDirectorySync,
} from '../files/file-system.js'
import { digestToBase64 } from '../format/digest.js'
import { AuditError } from '../format/errors.js'
import { isParent, type ParentHead } from '../format/journal-line.js'
import { isVerified } from '../format/note.js'
import {
  FORK_FILE,
  INTENTS_FOLDER,
  JOURNAL_FILE,
  LOCK_FILE,
  PUBLIC_KEYS_FILE,
  SEAL_LOCK_FILE,
} from '../format/paths.js'
import type { NoteVerifier } from '../format/verifier.js'
import { verifierFromLine } from '../keys/public-key.js'
import { newestCheckpoint, originOfCheckpoints } from '../tree/checkpoint-file.js'
import { journalLines, readGenesis } from '../tree/journal-file.js'
import { KeyHistory } from '../tree/key-history.js'

const STAYS = new Set([LOCK_FILE, SEAL_LOCK_FILE, FORK_FILE, INTENTS_FOLDER])

/**
 * Continues the log in `dir` after it was copied, restored or moved. Use it only if the original is gone: two copies
 * that are continued are two histories of one log, and a witness or `verify --against` finds that.
 *
 * @returns the id of the log.
 * @throws {AuditError} `not_found` if there is no log.
 */
export function resumeLog(dir: string, port: FileSystem = nodeFileSystem): string {
  const genesis = readGenesis(port, dir)
  if (genesis === undefined) throw new AuditError('not_found', `${dir} holds no audit.journal with a genesis`)
  replaceLock(port, dir, genesis.log_id)
  return genesis.log_id
}

/** The folder of the parent's files, and its newest head. */
export interface Fork {
  readonly parent: ParentHead
  /** Relative to the directory. */
  readonly folder: string
}

/**
 * Moves the log in `dir` to a folder in it, where it can be verified. The next writer begins a log that names the moved
 * one as its parent. Can be repeated after a crash.
 *
 * @throws {AuditError} `not_found` if no checkpoint is signed by a key of the log.
 */
export function forkLog(dir: string, port: FileSystem = nodeFileSystem): Fork {
  const parent = readParent(port, dir) ?? newestHead(port, dir)
  if (parent === undefined) {
    const message = `${dir} holds no checkpoint that a key of the log has signed and a new log could name as its parent`
    throw new AuditError('not_found', message)
  }
  const folder = `parent-${parent.root.replaceAll(/[^A-Za-z0-9]/g, '').slice(0, 16)}`
  replaceLock(port, dir, undefined)
  replaceFile(port, join(dir, FORK_FILE), Buffer.from(`${canonicalize(parent)}\n`))
  port.mkdirSync(join(dir, folder), { recursive: true, mode: DIRECTORY_MODE })
  const moved = port.readdirSync(dir).filter((name) => !STAYS.has(name) && !name.startsWith('parent-'))
  // The journal last: while it is here, no writer opens the directory.
  for (const name of moved.sort((a, b) => Number(a === JOURNAL_FILE) - Number(b === JOURNAL_FILE))) {
    port.renameSync(join(dir, name), join(dir, folder, name))
  }
  syncDirectorySync(port, join(dir, folder))
  syncDirectorySync(port, dir)
  return { parent, folder }
}

/** The parent that `forkLog` left for the genesis of the new log. */
export function readParent(port: FileSystem, dir: string): ParentHead | undefined {
  const value = parseJsonObject(readTextFile(port, join(dir, FORK_FILE)) ?? '')
  return isParent(value) ? value : undefined
}

/** The newest checkpoint that a key of the log has signed: a process without one can append others. */
function newestHead(port: FileSystem, dir: string): ParentHead | undefined {
  const origin = readGenesis(port, dir)?.origin ?? originOfCheckpoints(port, dir)
  if (origin === undefined) return undefined
  const stated = keysOfJournal(port, dir)
  const keysAt = stated.ids.length > 0 ? (leaf: number) => stated.allAt(leaf) : () => storedKeys(port, dir)
  const head = newestCheckpoint(port, dir, origin, (note, { size }) => {
    return isVerified(note, origin, keysAt(size - 1))
  })?.head
  return head && { origin: head.origin, size: head.size, root: digestToBase64(head.root) }
}

/** The keys in lines of the journal with valid signatures. */
function keysOfJournal(port: FileSystem, dir: string): KeyHistory {
  const keys = new KeyHistory()
  for (const { line, start } of journalLines(port, dir, 0, Infinity)) {
    if (line === undefined || line.kind === 'seal' || (line.kind === 'genesis' && start > 0)) continue
    keys.takeSigned(line)
  }
  return keys
}

/** The keys beside the log, for a journal that names none. */
function storedKeys(port: FileSystem, dir: string): NoteVerifier[] {
  return (readTextFile(port, join(dir, PUBLIC_KEYS_FILE)) ?? '').split('\n').flatMap((line) => {
    return line.startsWith('ed25519:') ? [verifierFromLine(line)] : []
  })
}

/** Puts a new lock file in the place of the old one. A writer that runs finds out and stops. */
function replaceLock(port: FileSystem, dir: string, logId: string | undefined): void {
  // The writer that seals holds the second one for its life.
  for (const name of [LOCK_FILE, SEAL_LOCK_FILE]) {
    const fd = openExisting(port, join(dir, name), READ_WRITE)
    if (fd === undefined) continue
    const isFree = tryLock(fd)
    if (isFree) unlock(fd)
    port.closeSync(fd)
    if (!isFree) throw new AuditError('lock_failed', `a writer is at work in ${dir}; stop it first`)
  }
  replaceFile(port, join(dir, LOCK_FILE), (inode) =>
    encodeLock(logId === undefined ? undefined : { inode: String(inode), logId }),
  )
}
