// The log's interface for the upload: file sizes without partly written batches, and retention.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '../files/file-system.js'
import type { Verifier } from '../keys/public-key.js'
import type { Sealer } from '../seal/sealer.js'
import type { Head } from '../tree/checkpoint.js'
import { newestCheckpoint } from '../tree/checkpoint-file.js'
import { endOfLeaf, readGenesis } from '../tree/journal-file.js'
import { KeyHistory } from '../tree/key-history.js'
import { isVerified, type Note } from '../tree/note.js'
import type { NotePiece } from '../tree/note-file.js'
import { endOfNotes } from '../tree/note-tail.js'
import { parseTreePath, treeFileBytes } from '../tree/tree-layout.js'
import type { UploadMode } from './source.js'

/** A file whose size is requested. */
export interface SizeRequest {
  readonly path: string
  readonly mode: UploadMode
}

export interface SizeResponse {
  /** In the order of the request; undefined for a file not to be uploaded now. */
  readonly sizes: readonly (number | undefined)[]
  /** As in `RoundRequest`. */
  readonly now: number
}

export interface UploadedLog {
  open(): Promise<{
    readonly lock: { run<T>(section: () => T): T | Promise<T> }
    readonly logId: string | undefined
    /** Whether there were no records when it was opened. */
    readonly isNew: boolean
    /** Undefined where checkpoints are off. */
    readonly sealer: Pick<Sealer, 'keys'> | undefined
    readonly agentLogs: { readonly isComplete: boolean; idle(): Promise<void> }
  }>
  /** Keys that the log trusts for what is signed now. */
  trustedKeys(): Promise<readonly Pick<Verifier, 'keyId' | 'verify'>[]>
  /** Removes files past their retention that are completely uploaded. */
  retainUploaded(uploaded: (path: string) => number): Promise<string[]>
}

/**
 * Sizes of the files under the log's lock, where a file holds whole batches. Of the tree and the journal, what the newest
 * checkpoint covers that the log has signed; notes after the last one that it has signed are left out. Undefined for a file that does not exist, and for agent files during a
 * repair, which may rewrite their ends.
 */
export async function fileSizes(
  log: UploadedLog,
  dir: string,
  files: readonly SizeRequest[],
): Promise<(number | undefined)[]> {
  const { lock, agentLogs, sealer } = await log.open()
  const keys = await sealer?.keys((known) => new SealedSizes(dir, known).isNewestSigned())
  return lock.run(() => {
    const { isComplete } = agentLogs
    const sealed = new SealedSizes(dir, keys)
    return files.map(({ path, mode }) => {
      if (mode === 'agent' && !isComplete) return undefined
      if (mode === 'checkpoint') return sealed.checkpoints(path)
      if (mode === 'journal') return sealed.journal()
      if (mode === 'tree') return sealed.tree(path)
      return statSync(join(dir, path), { throwIfNoEntry: false })?.size
    })
  })
}

class SealedSizes {
  readonly #dir: string
  readonly #keys: KeyHistory
  #state: { origin: string | undefined; size: number } | undefined

  /** @param keys without them nothing counts as signed. */
  constructor(dir: string, keys = new KeyHistory()) {
    this.#dir = dir
    this.#keys = keys
  }

  isNewestSigned(): boolean {
    const { origin, size } = this.#sealed()
    return origin === undefined || newestCheckpoint(nodeFileSystem, this.#dir, origin)?.head.size === size
  }

  checkpoints(path: string): number | undefined {
    const { origin } = this.#sealed()
    if (origin === undefined) return undefined
    const keys = this.#keys.all()
    const isOfLog = ({ note }: NotePiece) => isVerified(note, origin, keys)
    return endOfNotes(nodeFileSystem, join(this.#dir, path), origin, isOfLog)
  }

  journal(): number | undefined {
    const { size } = this.#sealed()
    return size === 0 ? undefined : endOfLeaf(nodeFileSystem, this.#dir, size - 1)
  }

  tree(path: string): number | undefined {
    const place = parseTreePath(path)
    return place === undefined ? undefined : treeFileBytes(place.level, place.file, this.#sealed().size)
  }

  #sealed(): { origin: string | undefined; size: number } {
    if (this.#state !== undefined) return this.#state
    const origin = readGenesis(nodeFileSystem, this.#dir)?.origin
    const isSigned = (note: Note, head: Head) =>
      isVerified(note, head.origin, this.#keys.allAt(head.size - 1))
    const newest =
      origin === undefined ? undefined : newestCheckpoint(nodeFileSystem, this.#dir, origin, isSigned)
    this.#state = { origin, size: newest?.head.size ?? 0 }
    return this.#state
  }
}
