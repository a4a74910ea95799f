// `svc audit verify`: the report for a person.
import { defined, messageOf, visibleInLine } from '@svc/core/json'
import { AuditError } from '@svc/plugin-audit/log'
import {
  type ReviewerPasskey,
  readInput,
  readKeys,
  readWitnessKeys,
  type VerifyFailure,
  type VerifyReport,
  type VoterRules,
  verifyLog,
} from '@svc/plugin-audit/tools'
import { z } from 'zod'
import { writeText } from './audit-files.js'
import type { CliIo } from './io.js'
import { progressDisplay } from './progress.js'

export interface VerifyArguments {
  keys?: string
  against?: string
  since?: string
  origin?: string
  maxUnsealed?: number
  strict?: boolean
  fast?: boolean
  agents?: boolean
  allowUnsealed?: boolean
  passkeys?: string
  witnessKeys?: string
  quorum?: number
  json?: boolean
  quiet?: boolean
  writeKeys?: string
}

/** Exit codes by verdict. */
export const VERDICT_EXIT = { intact: 0, not_intact: 1, cannot_be_judged: 2 } as const

export async function verify(dir: string, options: VerifyArguments, io: CliIo): Promise<void> {
  const {
    keys,
    witnessKeys,
    quorum,
    passkeys,
    maxUnsealed,
    json = false,
    quiet,
    writeKeys,
    ...rest
  } = options
  const witnesses = await witnessPolicy(witnessKeys, quorum)
  const progress = progressDisplay(io, 'audit verify', quiet)
  const report = await verifyLog(dir, {
    ...rest,
    ...(keys === undefined ? {} : { keys: await readKeys(keys) }),
    ...defined({ witnesses, maxUnsealedMs: maxUnsealed }),
    ...(passkeys === undefined ? {} : await reviewersIn(passkeys)),
    onFailure(failure) {
      if (json) return
      progress.clear()
      io.err(failureLine(failure))
    },
    onProgress: progress.show,
  })
  progress.clear()
  if (writeKeys !== undefined && report.verdict === 'intact') await writeTrusted(writeKeys, report)
  await io.out(json ? `${JSON.stringify(report, null, 2)}\n` : summary(report, rest))
  io.exit(VERDICT_EXIT[report.verdict])
}

const texts = z.array(z.string())

const passkeysFile = z.object({
  admin: z.object({
    passkeys: z
      .array(z.strictObject({ user: z.string(), id: z.string(), public_key: z.string() }).partial())
      .min(1),
    approval_sets: z
      .record(z.string(), z.object({ users: texts, reviewer_roles: texts }).partial())
      .optional(),
    roles: z.object({ reviewer: texts.optional() }).optional(),
  }),
  security: z
    .object({
      side_effects: z
        .object({ human_escalation: z.object({ approval_set_id: z.string().optional() }).optional() })
        .optional(),
    })
    .optional(),
})

/** Reads the passkeys of a policy, or of a file that has this part of one. Rejects with `AuditError`. */
async function reviewersIn(file: string): Promise<{ passkeys: ReviewerPasskey[]; voters: VoterRules }> {
  const [text, { policyValue }, { publicKeyOf }] = await Promise.all([
    readInput(file, 'passkeys'),
    import('@svc/core/policy'),
    import('@svc/core/passkey'),
  ])
  const found = passkeysFile.safeParse(policyValue(String(text)))
  if (!found.success)
    throw new AuditError('bad_config', `${file} does not list passkeys under admin.passkeys`)
  const { passkeys, approval_sets: approvalSets, roles } = found.data.admin
  for (const [at, { public_key: key }] of passkeys.entries()) {
    try {
      if (key !== undefined) publicKeyOf(key)
    } catch (error) {
      throw new AuditError('bad_config', `${file}: admin.passkeys.${at}.public_key: ${messageOf(error)}`)
    }
  }
  const defaultSet = found.data.security?.side_effects?.human_escalation?.approval_set_id
  return { passkeys, voters: { approvalSets, reviewerRoles: roles?.reviewer, defaultSet } }
}

export async function witnessPolicy(file: string | undefined, quorum: number | undefined) {
  if (file === undefined) {
    if (quorum === undefined) return undefined
    throw new AuditError('bad_config', '--quorum needs --witness-keys')
  }
  const keys = await readWitnessKeys(file)
  if (quorum === undefined || quorum <= keys.length) return { keys, quorum: quorum ?? keys.length }
  throw new AuditError('bad_config', `${file} has ${keys.length} keys, fewer than the quorum`)
}

/** Writes the keys of the verified log, for a reader who keeps them with its head. */
async function writeTrusted(path: string, { origin, head, keySpans }: VerifyReport): Promise<void> {
  const lines = keySpans.map(([key, from, until]) => `${key} ${from}${until === null ? '' : ` ${until}`}\n`)
  const of = `# keys of ${origin}, with the leaves that each may sign, as ${head?.size ?? 0} leaves state\n`
  await writeText(path, of + lines.join(''))
}

function failureLine({ file, line: failureLine, kind, message }: VerifyFailure): string {
  return `${visibleInLine(file)}:${failureLine}: ${kind}: ${message}\n`
}

function summary(report: VerifyReport, { fast, since }: VerifyArguments): string {
  if (report.files === 0 && report.verdict === 'cannot_be_judged') return `${verdictOf(report)}\n`
  // The origin comes first, since another intact log of the same key looks the same in all other lines.
  const lines = report.origin === undefined ? [] : [`log ${visibleInLine(report.origin)}`]
  for (const tail of report.tornTails) {
    lines.push(`${tail.file}:${tail.line}: ${tail.kind}: ${tail.message} (no failure)`)
  }
  const verified = fast === true ? 'signatures not checked (--fast)' : `${report.verified} verified`
  lines.push(`${report.records} records in ${report.files} files, ${verified}`)
  const { sealed, unsealed, oldestUnsealed, journalLines, checkpoints } = report
  const oldest = oldestUnsealed === undefined ? '' : `, the oldest of ${visibleInLine(oldestUnsealed)}`
  lines.push(`${sealed} records sealed by ${journalLines} journal lines, ${unsealed} not sealed yet${oldest}`)
  const newest = report.head === undefined ? '' : `, the newest of ${report.head.size} leaves`
  lines.push(`${checkpoints} checkpoints agree${newest}`)
  if (since !== undefined && report.since === undefined)
    lines.push(
      'the journal and the files of the tree do not lead to the head of --since: all of the log was read',
    )
  if (report.since !== undefined) {
    lines.push(`only what follows ${report.since.size} leaves was read, and days that have grown since`)
    const { earlierFaults = [] } = report
    for (const { file, line, message } of earlierFaults)
      lines.push(`${file}:${line}: fault before: ${message} (no failure of what follows)`)
  }
  const { cosigned } = report
  if (cosigned !== undefined) {
    const { size, by, time } = cosigned
    lines.push(
      `${size} leaves cosigned by ${by.length} witnesses at ${time}: ${visibleInLine(by.join(', '))}`,
    )
  }
  for (const { line: failureLine, from, to, before, after } of report.clockSetBacks) {
    lines.push(
      `audit.journal:${failureLine}: the clock was set back from ${from} to ${to}; by witnesses, times before: ${before}, after: ${after}`,
    )
  }
  if (report.provenVotes !== undefined)
    lines.push(`${report.provenVotes} votes proven by passkeys of their reviewers`)
  if (report.unjudgedVotes !== undefined && report.unjudgedVotes > 0)
    lines.push(
      `${report.unjudgedVotes} votes not judged by approval set or role: the log does not state which applies (no failure)`,
    )
  if (report.removedDays.length > 0) {
    const [first, last] = [report.removedDays[0], report.removedDays.at(-1)]
    lines.push(
      `${report.removedDays.length} days removed by retention, as the journal states (${first} to ${last})`,
    )
  }
  const tampering = describeCounts(report.tampering)
  if (tampering !== '') lines.push(`against what was sealed: ${tampering}`)
  const failures = describeCounts(report.failureCounts)
  if (failures !== '') lines.push(`failures: ${failures}`)
  lines.push(...limits(report), verdictOf(report))
  return `${lines.join('\n')}\n`
}

/** The manipulations that this verification cannot detect. */
function limits(report: VerifyReport): string[] {
  const { selfVouched, compared, pinned, cosigned, keys, verdict, provenVotes } = report
  if (verdict === 'cannot_be_judged') return []
  const lines: string[] = []
  if (selfVouched && keys.length > 0) {
    lines.push('judged by the keys in the log itself: the log vouches for itself (give --keys)')
  }
  if (!pinned && !compared) {
    lines.push('not detectable without --origin: another log of the same key in place of this one')
  }
  if (provenVotes !== undefined)
    lines.push(
      'not detectable: a vote to reject, a revocation or a whole escalation that the holder of the key left out',
    )
  if (cosigned !== undefined) {
    lines.push(
      'not detectable: what the holder of the key rewrote after the cosigned leaves, and a rollback to an older cosigned checkpoint (--against, or ask a witness for its newest)',
    )
    return lines
  }
  lines.push(
    compared
      ? 'not detectable: what the holder of a key rewrote after the head that was kept elsewhere'
      : 'not detectable without a head kept elsewhere (--against): a rollback of the whole directory, a fork, a log rewritten by the holder of a key, a former one too',
  )
  return lines
}

function verdictOf({ verdict, reason, journalLines }: VerifyReport): string {
  if (verdict === 'not_intact') return 'NOT INTACT'
  if (verdict === 'cannot_be_judged') return `cannot be judged: ${reason}`
  return journalLines > 0
    ? 'intact'
    : 'every record that is present is intact; missing records cannot be detected without a journal'
}

function describeCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ')
}
