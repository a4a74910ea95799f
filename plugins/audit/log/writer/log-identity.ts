// Finds which log a directory holds and whether it is the original. Writes the genesis of a new log.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LockedDirectory } from '../files/directory-lock.js'
import {
  APPEND_CREATE,
  type FileSystem,
  READ_WRITE_CREATE,
  readTextFile,
  syncDirectorySync,
  withFile,
  writeFully,
} from '../files/file-system.js'
import { defaultOrigin } from '../format/checkpoint.js'
import { digestToBase64 } from '../format/digest.js'
import { AuditError } from '../format/errors.js'
import { encodeJournalLine } from '../format/journal-codec.js'
import type { LineOf, UnsignedJournalLine } from '../format/journal-line.js'
import {
  dayOfCheckpointFile,
  dayOfCoverFile,
  dayOfDailyLog,
  FORK_FILE,
  JOURNAL_FILE,
  PUBLIC_KEYS_FILE,
} from '../format/paths.js'
import { publicKeyLine } from '../format/verifier.js'
import { type NoteSigner, signJson } from '../keys/signatures.js'
import { EMPTY_ROOT } from '../merkle/tree-hash.js'
import { inconsistentLog } from '../tree/inconsistent-log.js'
import { journalSize, readGenesis } from '../tree/journal-file.js'
import type { AppenderConfig } from './config.js'
import { readParent } from './fork.js'

export type Genesis = LineOf<'genesis'>

/**
 * The genesis of the log; undefined if a new one may begin. Call under the lock.
 *
 * @throws {AuditError} `old_format`, `log_copied`, `log_unlinked`.
 */
export function identify({ dir, port, lock }: LockedDirectory): Genesis | undefined {
  const genesis = readGenesis(port, dir)
  if (genesis === undefined) {
    const left = port.readdirSync(dir).find(isOfLog)
    if (lock.owner() === undefined && left !== undefined && !journalSize(port, dir)) {
      throw new AuditError(
        'old_format',
        `${dir} holds a log without audit.journal, of an earlier format or written without checkpoints, which cannot be continued: begin in an empty directory`,
      )
    }
    if (left !== undefined || journalSize(port, dir)?.end) {
      throw inconsistentLog('audit.journal is missing or does not begin with a genesis')
    }
    return undefined
  }
  if (lock.ownedLog() !== genesis.log_id) {
    throw new AuditError(
      'log_copied',
      `${dir} is a copy or was restored, or its .svc-lock was replaced: continue it if the original is gone (npx svc-sdk audit resume DIR), or begin a log that names it as its parent (npx svc-sdk audit fork DIR)`,
    )
  }
  return genesis
}

function isOfLog(name: string): boolean {
  return [dayOfDailyLog, dayOfCheckpointFile, dayOfCoverFile].some((dayOf) => dayOf(name) !== undefined)
}

/** The genesis of the log; begins the log if there is none. */
export async function beginOrContinue(
  parts: LockedDirectory,
  signer: NoteSigner,
  settings: Pick<AppenderConfig, 'origin' | 'writer' | 'retentionDays'>,
): Promise<Genesis> {
  const { dir, port, lock, clock } = parts
  const found = await lock.run(() => identify(parts))
  if (found !== undefined) return found
  const logId = randomBytes(16).toString('hex')
  const parent = readParent(port, dir)
  const line = await signJson<UnsignedJournalLine>(
    {
      journal: 1,
      kind: 'genesis',
      log_id: logId,
      leaf: 0,
      root: digestToBase64(EMPTY_ROOT),
      at: new Date(clock.now()).toISOString(),
      key_id: signer.keyId,
      format: 1,
      origin: settings.origin ?? defaultOrigin(logId, settings.writer),
      retention_days: settings.retentionDays,
      key: publicKeyLine(signer.publicKey),
      ...(parent === undefined ? {} : { parent }),
    },
    signer,
  )
  return lock.run(() => {
    // Another process may have been faster.
    const theirs = identify(parts)
    if (theirs !== undefined) return theirs
    lock.own(logId)
    writeGenesis(port, dir, encodeJournalLine(line))
    port.rmSync(join(dir, FORK_FILE), { recursive: false, force: true })
    const written = readGenesis(port, dir)
    if (written === undefined) throw inconsistentLog('its genesis could not be read back')
    return written
  })
}

function writeGenesis(port: FileSystem, dir: string, line: Uint8Array): void {
  withFile(port, join(dir, JOURNAL_FILE), READ_WRITE_CREATE, (fd) => {
    // A writer that died may have left a part of a genesis.
    port.ftruncateSync(fd, 0)
    writeFully(port, fd, Buffer.concat([line, Buffer.from('\n')]), 0, line.length + 1, 0)
    port.fsyncSync(fd)
  })
  syncDirectorySync(port, dir)
}

/**
 * Stores the key beside the log, so that a reader without keys can check whether the log is consistent with itself.
 * Call under the lock.
 */
export function recordPublicKey(port: FileSystem, dir: string, publicKey: Uint8Array): void {
  const path = join(dir, PUBLIC_KEYS_FILE)
  const text = readTextFile(port, path) ?? ''
  const line = publicKeyLine(publicKey)
  if (text.split('\n').includes(line)) return
  withFile(port, path, APPEND_CREATE, (fd) => {
    const separator = text === '' || text.endsWith('\n') ? '' : '\n'
    writeFully(port, fd, Buffer.from(`${separator}${line}\n`))
    port.fsyncSync(fd)
  })
}
