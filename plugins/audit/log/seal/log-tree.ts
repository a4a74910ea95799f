// The tree of a log as this process knows it: loaded from the newest checkpoint, brought forward over journal lines that
// follow it, extended by lines of its own. After an error the object is not used again; the next one starts from the
// files, so leaves that were persisted are never sealed in another way.

import { checkpointText, type Head, parseCheckpoint } from '../format/checkpoint.js'
import { type Digest, digestToBase64 } from '../format/digest.js'
import { AuditError } from '../format/errors.js'
import { encodeJournalLine } from '../format/journal-codec.js'
import type { JournalBody, LineOf, UnsignedJournalLine } from '../format/journal-line.js'
import { inclusionRanges } from '../format/merkle-proof.js'
import { isVerified } from '../format/note.js'
import { checkpointFile, dayOfInstant } from '../format/paths.js'
import { type NoteSigner, signJson, signNote } from '../keys/signatures.js'
import { LeafRange } from '../merkle/leaf-range.js'
import { leafHash, verifyInclusion } from '../merkle/tree-hash.js'
import { appendNote, type NotePiece } from '../tree/checkpoint-file.js'
import { inconsistentLog, rebuildDamaged } from '../tree/inconsistent-log.js'
import {
  cutTornLine,
  journalLines,
  journalSize,
  readGenesis,
  rewriteJournal,
  syncJournal,
  writeJournalLine,
} from '../tree/journal-file.js'
import { JournalState } from '../tree/journal-state.js'
import { followingLine, resumedState } from '../tree/resumed-state.js'
import { addSealedLeaves, type CoverOffsets } from '../tree/sealed-leaves.js'
import { TreeStore, TreeWriter } from '../tree/tree-store.js'
import { JournalConflictError } from './journal-conflict.js'
import { ownCheckpoint, signedCheckpoint, type TreeOptions } from './own-checkpoint.js'

// Hashes of verified lines that are kept in memory while lines are replayed.
const FLUSHED_HASHES = 16_384

export class LogTree {
  readonly genesis: LineOf<'genesis'>
  state = new JournalState()
  readonly #options: TreeOptions
  readonly #inode: number
  #writer: TreeWriter
  /** Bytes of the journal whose lines are in the tree. */
  #journalEnd = 0
  /** Size of the newest checkpoint. */
  #checkpointed = 0
  /** The newest checkpoint that the writer's own key had signed when the tree was loaded. */
  #own: Head | undefined
  readonly #covers: CoverOffsets = new Map()

  private constructor(options: TreeOptions, genesis: LineOf<'genesis'>, inode: number) {
    this.#options = options
    this.genesis = genesis
    this.#inode = inode
    this.#writer = this.#writerFor(new LeafRange())
  }

  /**
   * Links the newest checkpoint to the tree and the journal, and seals forward what follows it. Without a loss it reads
   * only the ends of files.
   *
   * @throws {AuditError} `log_unlinked`; errors of the disk and the signer.
   */
  static async load(options: TreeOptions): Promise<LogTree> {
    const { port, dir, lock, logger } = options
    const genesis = readGenesis(port, dir)
    if (genesis === undefined) throw inconsistentLog('audit.journal does not begin with a genesis')
    const own = ownCheckpoint(options, genesis.origin)
    // The checkpoint is read before the journal, so that the journal covers it.
    const newest = await signedCheckpoint(options, genesis, own)
    const journal = await lock.run(() => {
      cutTornLine(port, dir, logger)
      return journalSize(port, dir)
    })
    if (journal === undefined) throw inconsistentLog('audit.journal is missing')
    const tree = new LogTree(options, genesis, journal.inode)
    if (newest !== undefined) await tree.#resume(newest.head, own, journal.end)
    else if (journal.end > encodeJournalLine(genesis).length + 1) {
      throw inconsistentLog('it has no checkpoint, although more than its genesis was sealed')
    }
    await tree.follow()
    return tree
  }

  /** Leaves of the tree. */
  get size(): number {
    return this.#writer.range.end
  }

  get writer(): TreeWriter {
    return this.#writer
  }

  get store(): TreeStore {
    return new TreeStore(this.#options.dir, this.#options.port)
  }

  get journalEnd(): number {
    return this.#journalEnd
  }

  /** Whether the tree has nothing beyond the journal lines that it has read or appended. */
  get isUnextended(): boolean {
    return this.size === this.state.size && this.#writer.pending === 0
  }

  /** Takes over the lines that others have appended, and signs a checkpoint if the newest line has none. */
  async follow(): Promise<void> {
    const { port, dir, lock } = this.#options
    const journal = await lock.run(() => journalSize(port, dir))
    if (journal?.inode !== this.#inode) throw inconsistentLog('audit.journal was replaced')
    if (journal.end < this.#journalEnd) throw inconsistentLog('audit.journal was cut')
    if (journal.end > this.#journalEnd) {
      const from = this.#journalEnd
      await this.#replay(journal.end)
      await this.#writer.sync()
      await lock.run(() => {
        if (!rewriteJournal(this.#options, from, journal.end)) throw inconsistentLog('audit.journal was cut')
      })
      await syncJournal(this.#options)
    }
    await this.checkpoint()
  }

  /** Whether the journal still ends where this object expects. Call under the lock. */
  requireCurrent(): void {
    if (!this.#isCurrent()) throw new JournalConflictError()
  }

  #isCurrent(): boolean {
    const journal = journalSize(this.#options.port, this.#options.dir)
    return journal?.inode === this.#inode && journal.end === this.#journalEnd
  }

  /** The instant that a line gets now. */
  now(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }

  /**
   * Appends a line after the leaves that were added to `writer`. Their hashes and the line are written in one lock
   * section, so a process that comes second leaves the files of the tree as they are.
   *
   * @param at from `now()`, if the body depends on it.
   * @throws {JournalConflictError} when another process was faster.
   */
  async append(body: JournalBody, at = this.now()): Promise<void> {
    const leaf = this.size
    const signer = this.#trusted(leaf)[0]
    if (signer === undefined) throw this.#noKey()
    const line = await signJson<UnsignedJournalLine>(
      {
        journal: 1,
        log_id: this.genesis.log_id,
        leaf,
        root: digestToBase64(this.#writer.range.root()),
        at,
        key_id: signer.keyId,
        ...body,
      },
      signer,
    )
    const wrong = this.state.whyNot(line) ?? this.state.whyNotSummary(line)
    if (wrong !== undefined) throw refused(body, wrong)
    const stored = Buffer.concat([encodeJournalLine(line), Buffer.from('\n')])
    this.#writer.add(leafHash(stored.subarray(0, -1)))
    await this.#options.lock.run(() => {
      this.requireCurrent()
      this.#writer.flush()
      writeJournalLine(this.#options, stored, this.#journalEnd)
    })
    await this.#writer.sync()
    await syncJournal(this.#options)
    this.#journalEnd += stored.length
    this.state.apply(line)
  }

  /** The hash that was sealed as leaf `index`; undefined if the files of the tree do not prove it. */
  provenLeaf(index: number): Digest | undefined {
    const { size, store } = this
    const [leaf] = store.hashes(0, index, 1)
    const path = inclusionRanges(index, size).flatMap((range) => store.rootOf(range) ?? [])
    const isProven =
      leaf !== undefined && verifyInclusion(leaf, { index, size }, path, this.#writer.range.root())
    return isProven ? leaf : undefined
  }

  /** Computes the files of the tree anew from the journal and the logs. */
  rebuild(): Promise<void> {
    return this.#rebuild(this.#journalEnd)
  }

  /** Signs a checkpoint of the last line, unless it has one. */
  async checkpoint(): Promise<void> {
    if (this.#checkpointed === this.size) return
    const { clock } = this.#options
    const { origin } = this.genesis
    const signers = this.#trusted(this.size - 1)
    if (signers.length === 0) throw this.#noKey()
    const text = checkpointText({ origin, size: this.size, root: this.#writer.range.root() })
    const note = await signNote(text, origin, signers)
    const day = dayOfInstant(clock.now()) ?? ''
    const isStale = (newest: readonly NotePiece[]) => newest.some((piece) => this.#isAsNew(piece))
    const keys = this.state.keys.allAt(undefined)
    // Another process may have added a key since.
    const isOfLog = ({ note }: NotePiece) => !this.#isCurrent() || isVerified(note, origin, keys)
    await appendNote(this.#options, origin, checkpointFile(day), note, { isStale, isOfLog })
    this.#checkpointed = this.size
  }

  /** Whether another process has signed a checkpoint of the last line or of a later one. */
  #isAsNew({ note }: NotePiece): boolean {
    const size = note === undefined ? undefined : parseCheckpoint(note.text)?.size
    if (size === undefined || size < this.size) return false
    return isVerified(note, this.genesis.origin, this.state.keys.allAt(size - 1))
  }

  async #resume(head: Head, own: Head | undefined, end: number): Promise<void> {
    this.#own = own
    const { state, range, offset } = await resumedState(this.#options, this.genesis, { head, own }, end)
    if (range !== undefined) {
      this.state = state
      this.#writer = this.#writerFor(range)
      this.#journalEnd = offset
    } else {
      await rebuildDamaged('the tree does not lead to the newest checkpoint', () => this.#rebuild(offset))
      if (this.#writer.range.root() !== head.root) {
        throw inconsistentLog('its records and journal do not lead to the root of its newest checkpoint')
      }
    }
    this.#checkpointed = head.size
  }

  async #rebuild(end: number): Promise<void> {
    const { dir, logger } = this.#options
    logger.warn({ dir }, 'the files of the tree are missing or damaged, and are rebuilt from the log')
    this.state = new JournalState()
    this.#writer = this.#writerFor(new LeafRange())
    this.#journalEnd = 0
    this.#covers.clear()
    await this.#replay(end)
    await this.#writer.sync()
  }

  /** Verifies the lines up to the byte `end`, hashes their ranges again, and adds all to the tree. */
  async #replay(end: number): Promise<void> {
    const { port, dir } = this.#options
    for (const stored of journalLines(port, dir, this.#journalEnd, end)) {
      const where = `the journal line at byte ${stored.start}`
      const line = followingLine(this.state, stored)
      const bytes = Buffer.from(stored.bytes)
      if (line.kind === 'seal') await addSealedLeaves(this.#options, line.ranges, this.#writer, this.#covers)
      if (digestToBase64(this.#writer.range.root()) !== line.root) {
        const days = line.kind === 'seal' ? line.ranges.map(([day]) => day) : []
        const of = days.length === 0 ? '' : ` of ${[...new Set(days)].join(', ')}`
        throw inconsistentLog(
          `the leaves before ${where} do not lead to its root: sealed records${of} were changed`,
        )
      }
      this.#writer.add(leafHash(bytes))
      if (this.size === this.#own?.size && this.#writer.range.root() !== this.#own.root) {
        throw inconsistentLog(`${where} does not lead to the root of a checkpoint that this key has signed`)
      }
      this.state.apply(line)
      this.#journalEnd = stored.end
      if (this.#writer.pending > FLUSHED_HASHES) this.#writer.flush()
    }
    this.#writer.flush()
  }

  #trusted(leaf: number): NoteSigner[] {
    return this.#options.signers.filter(({ keyId }) => this.state.keys.at(keyId, leaf) !== undefined)
  }

  #noKey(): AuditError {
    const keyId = this.#options.signers[0]?.keyId ?? 'none'
    return new AuditError(
      'key_refused',
      `key ${keyId} is not trusted by the log; see npx svc-sdk keys rotate`,
    )
  }

  #writerFor(range: LeafRange): TreeWriter {
    return new TreeWriter(this.#options.dir, this.#options.port, range)
  }
}

function refused({ kind }: JournalBody, why: string): AuditError {
  const isOfKeys = kind === 'key' || kind === 'revoke'
  return new AuditError(isOfKeys ? 'key_refused' : 'log_unlinked', `no ${kind} line can be added: ${why}`)
}
