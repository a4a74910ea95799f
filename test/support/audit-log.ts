// Builds audit logs by docs/audit-format.md, with control over every line, for tests of readers.

import { hash } from 'node:crypto'
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { canonicalize, toBase64 } from '@svc/core/json'
import { checkpointText } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { bytesOfDigest, type Digest, digestToBase64 } from '@svc/plugin-audit/internal/log/format/digest'
import type { JournalBody, SealRange } from '@svc/plugin-audit/internal/log/format/journal-line'
import { LEVEL_STEP, placeOfHash } from '@svc/plugin-audit/internal/log/format/tree-layout'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { noteKeyId } from '@svc/plugin-audit/internal/log/keys/public-key'
import { alignedSubtrees, LeafRange } from '@svc/plugin-audit/internal/log/merkle/leaf-range'
import { leafHash, nodeHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { LocalDevSigner } from '@svc/plugin-audit/log'

export function signerOf(seed: number): LocalDevSigner {
  return LocalDevSigner.fromSeed(new Uint8Array(32).fill(seed))
}

interface Day {
  lines: string[]
  /** Lines that are sealed. */
  sealed: number
  end: number
  /** Sealed ranges: first leaf and number of lines. */
  ranges: [number, number][]
}

/** The members of a record that every log has, except of those that its writer adds. */
export function plainRecord(day: string, serial: number) {
  return {
    ts: `${day}T10:00:00.000Z`,
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    span_id: serial.toString(16).padStart(16, '0'),
    tenant: 'acme',
    server: 'files@1.0.0',
    tool: 'read@1.0.0',
    status: 'ok' as const,
    latency_ms: 1.5,
    policy: { decision: 'allow', retention: 'standard' } as const,
  }
}

export interface LogOptions {
  readonly seed?: number
  readonly logId?: string
  readonly origin?: string
  readonly retentionDays?: number
  readonly at?: string
}

export class LogBuilder {
  readonly logId: string
  readonly origin: string
  readonly leaves: Digest[] = []
  readonly days = new Map<string, Day>()
  /** The writer's clock. */
  at: string
  signer: LocalDevSigner
  /** The keys that sign checkpoints. */
  checkpointSigners: LocalDevSigner[]
  /** What a removal states in place of the truth. */
  removed: { lines?: number; cover?: Buffer; more?: object } = {}
  /** The lines of the journal. */
  readonly lines: string[] = []
  readonly #tree = new LeafRange()
  readonly #dir: string
  readonly #numbers = new Map<string, number>()
  #serial = 0

  constructor(dir: string, options: LogOptions = {}) {
    const { seed = 7, logId = '00112233445566778899aabbccddeeff', retentionDays = 30 } = options
    this.#dir = dir
    this.logId = logId
    this.origin = options.origin ?? `svc-audit.invalid/${logId}`
    this.at = options.at ?? '2026-11-21T10:00:00.000Z'
    this.signer = signerOf(seed)
    this.checkpointSigners = [this.signer]
    writeFileSync(join(dir, 'public-keys'), `${publicKeyLine(this.signer.publicKey)}\n`)
    const key = publicKeyLine(this.signer.publicKey)
    this.journal({ kind: 'genesis', format: 1, origin: this.origin, retention_days: retentionDays, key })
    this.checkpoint()
  }

  get size(): number {
    return this.leaves.length
  }

  /** A signed line. */
  sign(record: object, signer = this.signer): string {
    const sig = `ed25519:${toBase64(signer.sign(Buffer.from(canonicalize(record))))}`
    return canonicalize({ ...record, sig })
  }

  /** A record of the day; not appended. */
  recordLine(day: string, changes: Record<string, unknown> = {}, signer = this.signer): string {
    const { session = 'aaaaaaaaaaaaaaaa', ...rest } = changes
    const counter = `${session} ${day}`
    const number = this.#numbers.get(counter) ?? 0
    if (rest['seq'] === undefined) this.#numbers.set(counter, number + 1)
    return this.sign(
      {
        ...plainRecord(day, ++this.#serial),
        key_id: signer.keyId,
        log_id: this.logId.slice(0, 16),
        seq: `${session}:${number}`,
        ...rest,
      },
      signer,
    )
  }

  record(day: string, changes: Record<string, unknown> = {}, signer = this.signer): string {
    const line = this.recordLine(day, changes, signer)
    this.append(day, line)
    return line
  }

  append(day: string, given: string | readonly string[]): void {
    const lines = typeof given === 'string' ? [given] : given
    for (const line of lines) this.#day(day).lines.push(line)
    appendFileSync(join(this.#dir, `audit-${day}.ndjson`), lines.map((line) => `${line}\n`).join(''))
  }

  /** Seals all new lines and signs a checkpoint. */
  seal(options: { checkpoint?: boolean; signer?: LocalDevSigner } = {}): void {
    const ranges: SealRange[] = []
    for (const [day, state] of [...this.days].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const fresh = state.lines.slice(state.sealed)
      if (fresh.length === 0) continue
      state.ranges.push([this.size, fresh.length])
      for (const [first, next] of this.#pieces(this.size, fresh.length)) {
        const lines = fresh.splice(0, next - first)
        const start = state.end
        for (const line of lines) {
          this.#leaf(line)
          state.end += Buffer.byteLength(line) + 1
        }
        ranges.push([day, start, state.end, lines.length])
      }
      state.sealed = state.lines.length
    }
    this.journal({ kind: 'seal', ranges }, options.signer)
    if (options.checkpoint !== false) this.checkpoint()
  }

  /** Appends a journal line as it is given. */
  journal(body: JournalBody, signer = this.signer, changes: Record<string, unknown> = {}): string {
    const line = this.journalLine(body, signer, changes)
    this.#leaf(line)
    this.lines.push(line)
    appendFileSync(join(this.#dir, 'audit.journal'), `${line}\n`)
    return line
  }

  journalLine(body: JournalBody, signer = this.signer, changes: Record<string, unknown> = {}): string {
    const place = { journal: 1, log_id: this.logId, leaf: this.size, root: this.root(), at: this.at }
    return this.sign({ ...place, key_id: signer.keyId, ...body, ...changes }, signer)
  }

  root(): string {
    return digestToBase64(this.#tree.root())
  }

  checkpoint(signers: readonly LocalDevSigner[] = this.checkpointSigners): void {
    appendFileSync(join(this.#dir, `audit-${this.at.slice(0, 10)}.checkpoint`), this.note(signers))
  }

  note(signers: readonly LocalDevSigner[] = this.checkpointSigners, head = {}): string {
    const whole = { origin: this.origin, size: this.size, root: this.#tree.root(), ...head }
    return noteOf(whole, signers)
  }

  /** Removes the day as retention does. */
  remove(day: string): void {
    const { ranges, sealed } = this.#day(day)
    const hashes = ranges.flatMap(([first, lines]) => {
      return this.#pieces(first, lines).flatMap(([from, to]) =>
        alignedSubtrees(from, to).map(({ start, level }) => bytesOfDigest(this.#node(start, level))),
      )
    })
    const cover = this.removed.cover ?? Buffer.concat(hashes)
    writeFileSync(join(this.#dir, `audit-${day}.cover`), cover)
    this.journal({
      kind: 'remove',
      day,
      lines: this.removed.lines ?? sealed,
      cover: hash('sha256', cover, 'base64'),
      ...this.removed.more,
    })
    this.checkpoint()
    rmSync(join(this.#dir, `audit-${day}.ndjson`))
    this.days.delete(day)
  }

  /** Writes the files of the tree. */
  finish(): this {
    for (let level = 0; 2 ** level <= this.size; level += LEVEL_STEP) {
      const files = new Map<string, Uint8Array[]>()
      for (let index = 0; (index + 1) * 2 ** level <= this.size; index++) {
        const { path } = placeOfHash(level, index)
        const hashes = files.get(path) ?? []
        files.set(path, hashes)
        hashes.push(bytesOfDigest(this.#node(index * 2 ** level, level)))
      }
      for (const [path, hashes] of files) {
        mkdirSync(dirname(join(this.#dir, path)), { recursive: true })
        writeFileSync(join(this.#dir, path), Buffer.concat(hashes))
      }
    }
    return this
  }

  #pieces(first: number, lines: number): [number, number][] {
    const pieces: [number, number][] = []
    for (let from = first; from < first + lines; ) {
      const to = Math.min(first + lines, (Math.floor(from / 4096) + 1) * 4096)
      pieces.push([from, to])
      from = to
    }
    return pieces
  }

  #node(start: number, level: number): Digest {
    if (level === 0) return this.leaves[start] ?? ''
    return nodeHash(this.#node(start, level - 1), this.#node(start + 2 ** (level - 1), level - 1))
  }

  #leaf(line: string): void {
    const leaf = leafHash(Buffer.from(line))
    this.leaves.push(leaf)
    this.#tree.append(leaf)
  }

  #day(day: string): Day {
    const known = this.days.get(day) ?? { lines: [], sealed: 0, end: 0, ranges: [] }
    this.days.set(day, known)
    return known
  }
}

/** A checkpoint signed by each of `signers`. */
export function noteOf(
  head: { origin: string; size: number; root: Digest },
  signers: readonly LocalDevSigner[],
): string {
  const text = checkpointText(head)
  const lines = signers.map((signer) => {
    const id = noteKeyId(head.origin, signer.publicKey)
    const signed = Buffer.concat([id, signer.sign(Buffer.from(text))])
    return `\u2014 ${head.origin} ${toBase64(signed)}\n`
  })
  return `${text}\n${lines.join('')}`
}
