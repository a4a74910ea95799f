// The logs whose calls are judged: verified first, then read, with the policies that were kept beside them.
import { defined } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import {
  type LogFilter,
  readKeptPolicy,
  readKeys,
  readLog,
  readWitnessKeys,
  type VerifyProgress,
  type VerifyReport,
  verifyLog,
} from '@svc/plugin-audit/tools'

export interface VerifySettings {
  /** A file of trusted keys; default: those in the logs. */
  readonly keys?: string | undefined
  /** A checkpoint of the log that was kept elsewhere. */
  readonly head?: string | undefined
  /** A file of the keys of witnesses, which must all have cosigned. */
  readonly witnessKeys?: string | undefined
  readonly fast?: true | undefined
  readonly onProgress?: (progress: VerifyProgress) => void
}

/** The report on each log, in their order. */
export async function verifyLogs(
  dirs: readonly string[],
  { keys, head, witnessKeys, fast, onProgress }: VerifySettings,
): Promise<VerifyReport[]> {
  const witnesses = witnessKeys === undefined ? undefined : await readWitnessKeys(witnessKeys)
  const options = {
    ...(keys === undefined ? {} : { keys: await readKeys(keys) }),
    ...defined({ against: head }),
    ...(witnesses === undefined ? {} : { witnesses: { keys: witnesses, quorum: witnesses.length } }),
    ...defined({ fast, onProgress }),
  }
  const reports: VerifyReport[] = []
  for (const dir of dirs) reports.push(await verifyLog(dir, options))
  return reports
}

/** The result of the verification of a log in one line. */
export function describeVerification({ verdict, reason, head, cosigned, compared }: VerifyReport): string {
  if (verdict === 'cannot_be_judged') return `cannot be judged: ${reason ?? ''}`
  if (verdict === 'not_intact') return 'NOT INTACT'
  const parts = [
    head === undefined ? 'intact, without a journal' : `intact to leaf ${head.size.toLocaleString('en-US')}`,
    compared ? 'head kept elsewhere agrees' : 'no head kept elsewhere',
    ...(cosigned === undefined ? [] : [`witnesses ${cosigned.by.length} of ${cosigned.quorum}`]),
  ]
  return parts.join(', ')
}

/** The records of all logs, one log after the other. */
export async function* recordsOf(
  dirs: readonly string[],
  filter: LogFilter,
): AsyncGenerator<SignedEnvelope, void, void> {
  for (const dir of dirs) yield* readLog(dir, filter)
}

/** The text of a policy that was in force, from the first log that has it. */
export function keptPolicyIn(dirs: readonly string[], sha256: string): string | undefined {
  for (const dir of dirs) {
    const text = readKeptPolicy(dir, sha256)
    if (text !== undefined) return text
  }
  return undefined
}
