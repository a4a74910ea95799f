// Verifies a whole log in constant memory, on all cores: every line by itself, and all lines against the signed roots
// of the log's one tree.

import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { nodeFileSystem } from '../../files/file-system.js'
import { digestToBase64 } from '../../format/digest.js'
import { AuditError, systemCode } from '../../format/errors.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { shortLogId } from '../../format/stored-record.js'
import type { TrustedKey } from '../../format/verifier.js'
import { keysOfLog } from '../../keys/read-keys.js'
import { originOfCheckpoints } from '../../tree/checkpoint-file.js'
import { KeyHistory } from '../../tree/key-history.js'
import { checkAgents } from './agent-check.js'
import { type Beginning, beginningAt } from './beginning.js'
import { CheckpointCheck } from './checkpoint-check.js'
import { CheckpointWalk, headsOf } from './checkpoint-walk.js'
import { DayChecks } from './day-checks.js'
import { type Context, type Inventory, takeInventory } from './inventory.js'
import { type JournalFacts, journalFacts } from './journal-facts.js'
import { headsKeptElsewhere, type SavedCheckpoint } from './kept-checkpoint.js'
import { LogCheck } from './log-check.js'
import { Findings, type VerifyFailure, type VerifyReport } from './report.js'
import { scanPool } from './scan-pool.js'
import { type ReviewerPasskey, VoteCheck, type VoterRules } from './vote-check.js'
import { ClockCheck, CosignedHeadSearch, type WitnessPolicy } from './witnesses.js'

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
  /**
   * A file with a checkpoint of this log that an earlier verification has found intact: only what follows it is verified. The
   * whole log is, and compared with it, if the log does not lead to it.
   */
  since?: string
  /** The origin that the log must have. */
  origin?: string
  /** Witnesses whose cosignatures the newest checkpoint must have. */
  witnesses?: WitnessPolicy
  /** The passkeys of reviewers: every vote must be proven by one of them. */
  passkeys?: readonly ReviewerPasskey[]
  /** With `passkeys`: who may vote on which escalation. */
  voters?: VoterRules
  /** Checks every signature, those that a later checkpoint covers too. */
  strict?: boolean
  /** Checks the journal, the tree and its roots, not each record by itself. */
  fast?: boolean
  /** How old a record may be that is not sealed, milliseconds; default any. */
  maxUnsealedMs?: number
  /** Compares the files of agents with the daily logs. */
  agents?: boolean
  /** Accepts a log without a journal, as signers without a public key write it; its records name no log. */
  allowUnsealed?: boolean
  /** Maximum number of threads; default one per core. */
  threads?: number
  /** Called for each failure; the report keeps the first 1000. */
  onFailure?: (failure: VerifyFailure) => void
  onProgress?: (progress: VerifyProgress) => void
}

// Bytes of records for each byte of the journal below which a range is hashed in less time than a thread takes to get it.
const SHORT_RANGES = 8
// Codes of the system, and the code for a line that is longer than any record.
const UNREADABLE = /^(?:E[A-Z]+|read_failed)$/

/**
 * Checks that the log in `dir` is what its journal says: every line signed by a key that was trusted at its leaf, the
 * ranges and journal lines the leaves of one tree, its roots those that were signed, and nothing missing or added.
 *
 * @throws {SignerKeyError} when the log's own `public-keys` holds something else.
 * @throws {AuditError} `read_failed` when `against` or `since` holds no checkpoint; `bad_config` for options that exclude each
 * other.
 */
export async function verifyLog(dir: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  const { against, since, passkeys, agents } = options
  if (since !== undefined && (passkeys !== undefined || agents === true))
    throw new AuditError('bad_config', 'passkeys and agents need the whole log, which since leaves out')
  const heads = against === undefined ? [] : await headsKeptElsewhere(against)
  const kept = since === undefined ? [] : await headsKeptElsewhere(since)
  const newest = kept.toSorted((a, b) => a.size - b.size).at(-1)
  for (let attempt = 1; ; attempt++) {
    try {
      const inventory = takeInventory(dir)
      const size = typeof inventory === 'string' ? 0 : (inventory.journalSize ?? 0)
      const beginning = newest && (await beginningAt(dir, newest, size))
      // What does not lead to the head is located by comparing the whole log with it.
      return await verifyFiles(dir, inventory, options, beginning ? heads : [...heads, ...kept], beginning)
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
 * @param heads the heads that were kept elsewhere.
 * @param beginning where verification begins, if it continues an earlier one.
 */
export async function verifyFiles(
  dir: string,
  inventory: Inventory | string,
  options: VerifyOptions,
  heads: readonly SavedCheckpoint[] = [],
  beginning?: Beginning,
): Promise<VerifyReport> {
  if (options.passkeys !== undefined && options.fast === true)
    throw new AuditError('bad_config', 'passkeys are checked with the records, which fast leaves out')
  const { passkeys, voters, maxUnsealedMs } = options
  const findings = new Findings(options.onFailure)
  const compared = (options.against ?? options.since) !== undefined
  const selfVouched = options.keys === undefined
  const stated = { selfVouched, compared, pinned: options.origin !== undefined, keys: [], keySpans: [] }
  const unjudged = (reason: string) => findings.report({ verdict: 'cannot_be_judged', reason }, stated)
  if (typeof inventory === 'string') return unjudged(inventory)
  const given = options.keys ?? (await keysOfLog(dir))
  const { journalSize, sizes } = inventory
  const own = beginning ? KeyHistory.of(beginning.state.keys.spans()) : KeyHistory.ofTrusted(given)
  const facts =
    journalSize === undefined
      ? undefined
      : await journalFacts(join(dir, JOURNAL_FILE), journalSize, own, beginning?.offset)
  const keys = selfVouched ? own : own.trustedBy(given)
  if (keys.ids.length === 0)
    return unjudged(
      given.length === 0
        ? 'no public key is known'
        : 'none of the given keys is one of this log, so they are of another log, or this one was put in its place',
    )
  const totalBytes = [...sizes].reduce((sum, [day, size]) => {
    return sum + Math.max(0, size - (beginning?.ends.get(day) ?? 0))
  }, 0)
  const wholeId = beginning?.state.logId ?? facts?.logId
  const logId = wholeId === undefined ? undefined : shortLogId(wholeId)
  const judged = options.fast !== true
  const areShort = totalBytes < SHORT_RANGES * (journalSize ?? 0)
  const pool = scanPool({ keys, logId }, totalBytes, !judged && areShort ? 1 : options.threads)
  const onBytes = progressOver(totalBytes, options.onProgress)
  try {
    const votes = passkeys && new VoteCheck({ passkeys, voters }, (facts?.removals.size ?? 0) > 0, findings)
    const context = {
      ...inventory,
      dir,
      keys,
      facts,
      beginning,
      pool,
      judged,
      findings,
      votes,
      maxUnsealedMs,
      onBytes,
    }
    const result =
      facts === undefined
        ? await checkUnsealed(context, options)
        : await check(context, facts, options, heads)
    const identity = { ...stated, keys: keys.ids, keySpans: keys.spans() }
    const proven = votes === undefined ? {} : { provenVotes: votes.proven, unjudgedVotes: votes.unjudged }
    const verdict = findings.verdict(judged || beginning !== undefined)
    return findings.report(verdict, { ...identity, ...proven, ...result })
  } finally {
    await pool.close()
  }
}

/** A log without a journal. */
async function checkUnsealed(context: Context, { witnesses, allowUnsealed }: VerifyOptions): Promise<Result> {
  const { checkpoints, findings } = context
  const days = new DayChecks(context)
  await days.finish(0)
  if (checkpoints.size > 0 || days.namesLog || witnesses !== undefined) {
    findings.fail(JOURNAL_FILE, 0, 'missing_file', 'the log has no journal')
  } else if (allowUnsealed !== true) {
    findings.unjudged = 'the log has no journal, so that missing records cannot be detected'
  }
  return {}
}

type Result = Partial<
  Pick<
    VerifyReport,
    'since' | 'earlierFaults' | 'origin' | 'head' | 'cosigned' | 'removedDays' | 'clockSetBacks'
  >
>

async function check(
  context: Context,
  { genesis, removals }: JournalFacts,
  { origin: wanted, witnesses, strict = false, agents }: VerifyOptions,
  heads: readonly SavedCheckpoint[],
): Promise<Result> {
  const { dir, findings, sizes, beginning } = context
  const origin = beginning?.head.origin ?? genesis?.origin ?? originOfCheckpoints(nodeFileSystem, dir) ?? ''
  if (wanted !== undefined && wanted !== origin) {
    findings.fail(JOURNAL_FILE, 0, 'wrong_origin', `the log is ${origin}, not ${wanted}`)
  }
  const against = headsOf(heads, origin, context)
  const walk = new CheckpointWalk(context, origin)
  const cosigned = witnesses && new CosignedHeadSearch(witnesses)
  const [start] = beginning === undefined ? [] : headsOf([beginning.head], origin, context)
  if (start !== undefined) cosigned?.offer(start)
  const clock = new ClockCheck(witnesses?.keys ?? [])
  const checks = new CheckpointCheck(context, { walk, against, cosigned, clock, strict })
  await new LogCheck(context, checks, new DayChecks(context)).run()
  if (agents === true) await checkAgents(context)
  const { head } = checks
  const witnessed = cosigned?.finish(findings, Date.now())
  return {
    ...(beginning && {
      since: { size: beginning.head.size, root: digestToBase64(beginning.head.root) },
      earlierFaults: beginning.faults,
    }),
    origin,
    removedDays: [...removals.keys()].filter((day) => !sizes.has(day)).sort(),
    clockSetBacks: clock.finish(),
    ...(head && { head }),
    ...(witnessed && { cosigned: witnessed }),
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
