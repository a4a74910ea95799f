// Checks single records with the keys that the log itself names.

import { isVote } from '../../browser/recorded-vote.js'
import { keysOfLog } from '../../keys/read-keys.js'
import { KeyHistory } from '../../tree/key-history.js'
import { shortLogId } from '../../tree/record-place.js'
import { checkLine, checkVote } from '../verify/check-line.js'
import { factsOfLog } from '../verify/journal-facts.js'
import type { FailureKind } from '../verify/report.js'

/** Why the stored line of a day is not a record of the log; undefined if it is. */
export type RecordCheck = (line: Buffer, day: string) => Promise<FailureKind | undefined>

/** The check of a record's line; undefined if the log names no key. */
export async function recordCheck(dir: string): Promise<RecordCheck | undefined> {
  const keys = KeyHistory.ofTrusted(await keysOfLog(dir))
  const facts = await factsOfLog(dir, keys)
  const logId = facts?.logId === undefined ? undefined : shortLogId(facts.logId)
  if (keys.ids.length === 0) return undefined
  return async (line, day) => {
    const { failure, record } = checkLine(line, { keys, logId, day }, undefined)
    if (failure !== undefined || record === undefined || !isVote(record)) return failure?.kind
    return (await checkVote(record))?.kind
  }
}
