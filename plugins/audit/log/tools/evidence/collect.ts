// Collects the proofs of an evidence file from logs on disk, within a limit of bytes.

import { isJsonObject } from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import type { Evidence } from '../../format/evidence-data.js'
import { objectIn } from '../../format/stored-record.js'
import { type Match, matchingLines, Prover } from '../prove/prove.js'
import { type LogFilter, selectionOf } from '../read/filter.js'
import { evidencePage, pageFrame } from './page-frame.js'

/** A browser opens a page of this size within seconds. */
const MAX_BYTES = 50 * 2 ** 20
const HASH_TEXT = 46
const SERVED = '"definitions/serve@1"'

export interface EvidenceOptions {
  /** The program that makes the file, and its version. */
  readonly madeBy: string
  /** Largest size of the file, in bytes; default 50 MiB. */
  readonly maxBytes?: number
  /** Milliseconds since the epoch. */
  readonly now?: number
}

export interface EvidenceEstimate {
  readonly records: number
  /** Matching records that are not sealed yet, and those beyond the limit. */
  readonly notSealed: number
  readonly more: number
  /** Bytes of the file, about. */
  readonly bytes: number
  readonly maxBytes: number
}

interface Collected {
  readonly prover: Prover
  readonly sealed: readonly { readonly match: Match; readonly leaf: number }[]
}

/**
 * The number of records and of bytes that `evidenceOf` would write.
 *
 * @throws as `evidenceOf`, save for `over_limit`.
 */
export async function estimateEvidence(
  dirs: readonly string[],
  filter: LogFilter,
  { maxBytes = MAX_BYTES }: Pick<EvidenceOptions, 'maxBytes'> = {},
): Promise<EvidenceEstimate> {
  const selection = new Selection(filter, Number.POSITIVE_INFINITY)
  for (const dir of dirs) await selection.count(dir)
  const { records, notSealed, more, bytes } = selection
  return { records, notSealed, more, bytes: bytes + frameBytes(), maxBytes }
}

/**
 * The page with the proofs of all records of the logs that match; those that are not sealed yet are counted in it.
 *
 * @throws {AuditError} `over_limit`; `not_found` if no sealed record matches; `log_unlinked`, as `proveRecord`.
 */
export async function evidenceOf(
  dirs: readonly string[],
  filter: LogFilter,
  { madeBy, maxBytes = MAX_BYTES, now = Date.now() }: EvidenceOptions,
): Promise<string> {
  const selection = new Selection(filter, maxBytes - frameBytes())
  const logs: Collected[] = []
  for (const dir of dirs) logs.push(await selection.collect(dir))
  if (selection.records === 0) {
    const why =
      selection.notSealed > 0 ? `${selection.notSealed} match, and are not sealed yet` : 'none matches'
    throw new AuditError('not_found', `no sealed record matches: ${why}`)
  }
  const records: string[] = []
  const definitions: string[] = []
  for (const { prover, sealed } of logs) {
    for (const { match, leaf } of sealed) records.push(prover.proofOf(match, leaf))
    for (const { match, leaf } of await definitionsOf(prover, sealed, filter)) {
      definitions.push(prover.proofOf(match, leaf))
    }
  }
  const evidence: Evidence = {
    evidence: 1,
    made_at: new Date(now).toISOString(),
    made_by: madeBy,
    filter: selectionOf(filter),
    more: selection.more,
    not_sealed: selection.notSealed,
    records,
    definitions,
  }
  const page = evidencePage(evidence)
  const size = Buffer.byteLength(page)
  if (size > maxBytes) throw overLimit(size, maxBytes)
  return page
}

function frameBytes(): number {
  const { before, after } = pageFrame()
  return Buffer.byteLength(before) + Buffer.byteLength(after) + 512
}

function overLimit(bytes: number, maxBytes: number): AuditError {
  const megabytes = (count: number) => (count / 2 ** 20).toFixed(count < 2 ** 20 ? 3 : 1)
  return new AuditError(
    'over_limit',
    `the file would have over ${megabytes(Math.min(bytes, maxBytes))} MiB, and may have ${megabytes(maxBytes)}: select fewer records (--since, --until, --tenant, ...), or give --limit`,
  )
}

/** The matching records of several logs together. */
class Selection {
  records = 0
  notSealed = 0
  more = 0
  bytes = 0
  readonly #filter: LogFilter
  readonly #limit: number
  readonly #maxBytes: number

  constructor({ limit = Number.POSITIVE_INFINITY, ...filter }: LogFilter, maxBytes: number) {
    this.#filter = filter
    this.#limit = limit
    this.#maxBytes = maxBytes
  }

  async count(dir: string): Promise<void> {
    await this.#read(dir, () => undefined)
  }

  async collect(dir: string): Promise<Collected> {
    const sealed: { match: Match; leaf: number }[] = []
    const prover = await this.#read(dir, (match, leaf) => sealed.push({ match, leaf }))
    return { prover, sealed }
  }

  async #read(dir: string, take: (match: Match, leaf: number) => void): Promise<Prover> {
    const prover = await Prover.open(dir)
    for await (const batch of batches(matchingLines(dir, this.#filter))) {
      const leaves = await prover.leavesOf(batch)
      for (const [at, match] of batch.entries()) {
        const leaf = leaves[at]
        if (leaf === undefined) this.notSealed++
        else if (this.records >= this.#limit) this.more++
        else {
          this.records++
          this.bytes += proofBytes(match.record.length, prover)
          if (this.bytes > this.#maxBytes) throw overLimit(this.bytes, this.#maxBytes)
          take(match, leaf)
        }
      }
    }
    return prover
  }
}

/** About: the base64 of the record, a hash for each level of the tree, and the checkpoint. */
function proofBytes(lineBytes: number, { size, noteBytes }: Prover): number {
  return Math.ceil(lineBytes / 3) * 4 + HASH_TEXT * Math.ceil(Math.log2(Math.max(size, 2))) + noteBytes + 80
}

// The journal is read once for each.
const BATCH = 20_000

async function* batches(matches: AsyncGenerator<Match, void, void>): AsyncGenerator<Match[], void, void> {
  let batch: Match[] = []
  for await (const match of matches) {
    batch.push(match)
    if (batch.length < BATCH) continue
    yield batch
    batch = []
  }
  yield batch
}

/** The records with the definitions that the proven ones name, of the same tenant if the filter names one. */
async function definitionsOf(
  prover: Prover,
  sealed: Collected['sealed'],
  { tenant }: LogFilter,
): Promise<Collected['sealed']> {
  const named = new Set<unknown>()
  for (const { match } of sealed) named.add(objectIn(match.record)?.['definition_sha256'])
  for (const none of [undefined, null]) named.delete(none)
  const found: Match[] = []
  if (named.size === 0) return []
  const isServed = (line: Buffer) => line.includes(SERVED)
  for await (const match of matchingLines(prover.dir, tenant === undefined ? {} : { tenant }, isServed)) {
    const event = objectIn(match.record)?.['event']
    if (isJsonObject(event) && named.delete(event['sha256'])) found.push(match)
  }
  const leaves = await prover.leavesOf(found)
  return found.flatMap((match, at) => {
    const leaf = leaves[at]
    return leaf === undefined ? [] : [{ match, leaf }]
  })
}
