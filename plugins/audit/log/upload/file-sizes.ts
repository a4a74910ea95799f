// The log's interface for the upload: file sizes without partly written batches, retention, and signed states.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Signer } from '@svc/core'
import { defined } from '@svc/core/json'
import { nodeFileSystem } from '../files/file-system.js'
import type { Head } from '../format/checkpoint.js'
import { isVerified, type Note } from '../format/note.js'
import { parseTreePath, treeFileBytes } from '../format/tree-layout.js'
import type { SignatureVerifier } from '../format/verifier.js'
import { hasSigned, signJson } from '../keys/signatures.js'
import type { Sealer } from '../seal/sealer.js'
import { endOfNotes, newestCheckpoint } from '../tree/checkpoint-file.js'
import { endOfLeaf, readGenesis } from '../tree/journal-file.js'
import { KeyHistory } from '../tree/key-history.js'
import type { UploadMode } from './source.js'
import type { StateKey } from './state-file.js'

/** A file whose size is requested. */
export interface SizeRequest {
  readonly path: string
  readonly mode: UploadMode
}

export interface SizeResponse {
  /** The sizes in the order of the request; undefined for a file not to be uploaded now. */
  readonly sizes: readonly (number | undefined)[]
  /** The time of the round (`RoundRequest`). */
  readonly now: number
}

export interface UploadedLog {
  open(): Promise<{
    readonly lock: { run<T>(section: () => T): T | Promise<T> }
    readonly logId: string | undefined
    /** Whether there were no records when it was opened. */
    readonly isNew: boolean
    /** Undefined if checkpoints are off. */
    readonly sealer: Pick<Sealer, 'keys'> | undefined
    readonly agentLogs: { readonly isComplete: boolean; idle(): Promise<void> }
  }>
  /** Keys that the log trusts for what is signed now. */
  trustedKeys(): Promise<readonly Pick<SignatureVerifier, 'keyId' | 'verify'>[]>
  /** Removes files past their retention that are completely uploaded. */
  retainUploaded(uploaded: (path: string) => number): Promise<string[]>
}

/**
 * Sizes of the files, read under the log's lock so that each holds whole batches. The tree and the journal count as far
 * as the newest checkpoint signed by the log covers them; notes after the last one signed by the log are left out.
 * Undefined for a file that does not exist, and for agent files during a repair, which may rewrite their ends.
 */
export async function fileSizes(
  log: UploadedLog,
  dir: string,
  files: readonly SizeRequest[],
): Promise<(number | undefined)[]> {
  const { lock, agentLogs, sealer } = await log.open()
  const isNewestSigned = (known: KeyHistory) => {
    const { origin, size } = sealedHead(dir, known)
    return origin === undefined || newestCheckpoint(nodeFileSystem, dir, origin)?.head.size === size
  }
  const keys = (await sealer?.keys(isNewestSigned)) ?? new KeyHistory()
  return lock.run(() => {
    const { isComplete } = agentLogs
    let head: ReturnType<typeof sealedHead> | undefined
    return files.map(({ path, mode }) => {
      if (mode === 'agent' && !isComplete) return undefined
      if (mode === 'checkpoint' || mode === 'journal' || mode === 'tree') {
        head ??= sealedHead(dir, keys)
        return sealedBytes(dir, { path, mode }, head, keys)
      }
      return statSync(join(dir, path), { throwIfNoEntry: false })?.size
    })
  })
}

/** The origin of the log, and the leaves of the newest checkpoint that one of `keys` has signed. */
function sealedHead(dir: string, keys: KeyHistory): { origin: string | undefined; size: number } {
  const origin = readGenesis(nodeFileSystem, dir)?.origin
  const isSigned = (note: Note, { size }: Head) => isVerified(note, origin ?? '', keys.allAt(size - 1))
  const newest = origin === undefined ? undefined : newestCheckpoint(nodeFileSystem, dir, origin, isSigned)
  return { origin, size: newest?.head.size ?? 0 }
}

function sealedBytes(
  dir: string,
  { path, mode }: SizeRequest,
  { origin, size }: ReturnType<typeof sealedHead>,
  keys: KeyHistory,
): number | undefined {
  if (mode === 'journal') return size === 0 ? undefined : endOfLeaf(nodeFileSystem, dir, size - 1)
  const place = parseTreePath(path)
  if (place !== undefined) return treeFileBytes(place.level, place.file, size)
  if (origin === undefined) return undefined
  const all = keys.allAt(undefined)
  return endOfNotes(nodeFileSystem, join(dir, path), origin, ({ note }) => isVerified(note, origin, all))
}

/** Signs and checks states of what was sent, with the keys of the log. */
export function stateKey(log: UploadedLog, signer: Signer): StateKey {
  return {
    async sign(state) {
      const { logId } = await log.open()
      return signJson({ ...state, key_id: signer.keyId, ...defined({ log_id: logId }) }, signer)
    },
    async isSigned(state) {
      const keys = await log.trustedKeys()
      return state['log_id'] === (await log.open()).logId && keys.some((key) => hasSigned(state, key))
    },
  }
}
