// Verifies a whole log in constant memory, on all cores: every line by itself, and all lines against the signed roots
// of the log's one tree.

import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { systemCode } from '../../format/errors.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { keysOfLog } from '../../keys/read-keys.js'
import { shortLogId } from '../../tree/record-place.js'
import { headsKeptElsewhere, headsOf } from './against.js'
import { checkAgents } from './agent-check.js'
import { CheckpointCheck, type OnCheckpoint } from './checkpoint-check.js'
import { CheckpointWalk, type KeptCheckpoint } from './checkpoint-walk.js'
import { ClockCheck } from './clock-check.js'
import { CosignedHead, type WitnessPolicy } from './cosigned-head.js'
import { Covers } from './covers.js'
import { DayChecks } from './day-checks.js'
import { Findings } from './findings.js'
import { type Inventory, originOfCheckpoints, takeInventory } from './inventory.js'
import { type JournalFacts, journalFacts } from './journal-facts.js'
import { checkLog } from './log-check.js'
import type { VerifyFailure, VerifyReport } from './report.js'
import { scanPool } from './scan-pool.js'
import { spansOf, TrustedKeys, trustedSpans } from './trusted-keys.js'

// Retention may remove a day while it is read; then everything is read again.
const MAX_ATTEMPTS = 10

export interface VerifyProgress {
  readonly bytes: number
  readonly totalBytes: number
}

export interface VerifyOptions {
  /**
   * Trusted keys, each for its leaves; those that they introduced there in the journal are trusted too. Default: the log's
   * own keys.
   */
  keys?: readonly TrustedKey[]
  /** A file with a checkpoint of this log that was kept elsewhere and that the log must match. */
  against?: string
  /** The origin that the log must have. */
  origin?: string
  /** Witnesses whose cosignatures the newest checkpoint must have. */
  witnesses?: WitnessPolicy
  /** Checks the journal, the tree and its roots, not each record by itself. */
  fast?: boolean
  /** Compares the files of agents with the daily logs. */
  agents?: boolean
  /** Accepts a log without a journal, as signers without a public key write it; its records name no log. */
  allowUnsealed?: boolean
  /** Maximum number of threads; default one per core. */
  threads?: number
  /** Called for each failure; the report keeps the first 1000. */
  onFailure?: (failure: VerifyFailure) => void
  onProgress?: (progress: VerifyProgress) => void
  onCheckpoint?: OnCheckpoint
}

// Of the system, and of a line that is longer than any record.
const UNREADABLE = /^(?:E[A-Z]+|read_failed)$/

/**
 * Checks that the log in `dir` is what its journal says: every line signed by a key that was trusted at its leaf, the
 * ranges and journal lines the leaves of one tree, its roots those that were signed, and nothing missing or added.
 *
 * @throws {SignerKeyError} when the log's own `public-keys` holds something else.
 * @throws {AuditError} `read_failed` when `against` holds no checkpoint.
 */
export async function verifyLog(dir: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  const heads = options.against === undefined ? [] : await headsKeptElsewhere(options.against)
  for (let attempt = 1; ; attempt++) {
    try {
      return await verifyFiles(dir, takeInventory(dir), options, heads)
    } catch (error) {
      const code = systemCode(error)
      if (code === 'ENOENT' && attempt < MAX_ATTEMPTS) continue
      if (code === undefined || !UNREADABLE.test(code)) throw error
      return verifyFiles(dir, `cannot read the log: ${messageOf(error)}`, options)
    }
  }
}

/**
 * @param inventory the files, or why nothing can be judged.
 * @param heads those in the file `against`.
 */
export async function verifyFiles(
  dir: string,
  inventory: Inventory | string,
  options: VerifyOptions,
  heads: readonly KeptCheckpoint[] = [],
): Promise<VerifyReport> {
  const findings = new Findings(options.onFailure ?? (() => undefined))
  const compared = options.against !== undefined
  const selfVouched = options.keys === undefined
  const pinned = options.origin !== undefined
  if (typeof inventory === 'string') {
    return findings.report(
      { verdict: 'cannot_be_judged', reason: inventory },
      { selfVouched, compared, pinned, keys: [], keySpans: [] },
    )
  }
  const given = options.keys ?? (await keysOfLog(dir))
  const spans = spansOf(given)
  const { journalSize } = inventory
  const facts =
    journalSize === undefined ? undefined : await journalFacts(join(dir, JOURNAL_FILE), journalSize, spans)
  const known = facts?.spans ?? spans
  const keys = new TrustedKeys(selfVouched ? known : trustedSpans(known, given))
  const identity = { selfVouched, compared, pinned, keys: keys.ids, keySpans: keys.spans }
  if (keys.ids.length === 0 && given.length === 0) {
    return findings.report({ verdict: 'cannot_be_judged', reason: 'no public key is known' }, identity)
  }
  const result = await check(dir, options, { findings, inventory, facts, keys, heads })
  return findings.report(findings.verdict(options.fast !== true), { ...identity, ...result })
}

interface Subject {
  readonly findings: Findings
  readonly inventory: Inventory
  readonly facts: JournalFacts | undefined
  readonly keys: TrustedKeys
  readonly heads: readonly KeptCheckpoint[]
}

type Result = Partial<Pick<VerifyReport, 'origin' | 'head' | 'cosigned' | 'removedDays' | 'clockSetBacks'>>

async function check(dir: string, options: VerifyOptions, subject: Subject): Promise<Result> {
  const { findings, inventory, facts, keys, heads } = subject
  const { sizes, journalSize = 0, coveredSize } = inventory
  const judged = options.fast !== true
  const totalBytes = [...sizes.values()].reduce((sum, size) => sum + size, 0)
  const onBytes = progressOver(totalBytes, options.onProgress)
  const logId = facts?.logId === undefined ? undefined : shortLogId(facts.logId)
  const pool = scanPool({ keys, logId }, totalBytes, options.threads)
  const days = new DayChecks({ dir, pool, judged, findings, sizes, onBytes })
  const place = { file: JOURNAL_FILE, line: 0 }
  try {
    if (facts === undefined) {
      await days.finish(0)
      const hasCheckpoints = inventory.checkpoints.size > 0
      if (hasCheckpoints || days.namesLog || options.witnesses !== undefined) {
        findings.fail({ ...place, kind: 'missing_file', message: 'the log has no journal' })
      } else if (options.allowUnsealed !== true) {
        findings.unjudged = 'the log has no journal, so that missing records cannot be detected'
      }
      return {}
    }
    const origin = facts.genesis?.origin ?? originOfCheckpoints(dir, inventory.checkpoints.keys()) ?? ''
    if (options.origin !== undefined && options.origin !== origin) {
      const message = `the log is ${origin}, not ${options.origin}`
      findings.fail({ ...place, kind: 'wrong_origin', message })
    }
    const against = headsOf(heads, { origin, keys, findings })
    const walk = new CheckpointWalk(dir, inventory.checkpoints, origin, findings)
    const cosigned = options.witnesses && new CosignedHead(options.witnesses)
    const clock = new ClockCheck(options.witnesses?.keys ?? [])
    const checkpoints = new CheckpointCheck({
      walk,
      keys,
      against,
      coveredSize,
      cosigned,
      clock,
      findings,
      onCheckpoint: options.onCheckpoint,
    })
    days.stateRemovals(facts.removals.keys())
    const covers = new Covers(dir, facts.removals, findings)
    const scan = { dir, pool, keys, judged, journalSize, sizes }
    const size = await checkLog(scan, { findings, facts, covers, checkpoints, days, onBytes })
    covers.finish()
    await days.finish(size)
    if (options.agents === true) await checkAgents(dir, { days: sizes, removed: facts.removals, findings })
    const { head } = checkpoints
    const witnessed = cosigned?.finish(findings, Date.now())
    return {
      origin,
      removedDays: days.removedDays,
      clockSetBacks: clock.finish(),
      ...(head && { head }),
      ...(witnessed && { cosigned: witnessed }),
    }
  } finally {
    await pool.close()
  }
}

function progressOver(
  totalBytes: number,
  onProgress: ((progress: VerifyProgress) => void) | undefined,
): (more: number) => void {
  let bytes = 0
  return (more) => {
    // Ranges that were cut have fewer bytes than they state.
    bytes = Math.min(totalBytes, bytes + more)
    onProgress?.({ bytes, totalBytes })
  }
}
