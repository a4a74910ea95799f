// Checks single records with the keys that the log itself names.

import { checkLine } from '../../format/check-line.js'
import { isVote } from '../../format/recorded-vote.js'
import { shortLogId } from '../../format/stored-record.js'
import { voteFailure } from '../../keys/passkeys.js'
import { keysOfLog } from '../../keys/read-keys.js'
import { KeyHistory } from '../../tree/key-history.js'
import { factsOfLog } from '../verify/journal-facts.js'
import type { FailureKind } from '../verify/report.js'

export class RecordCheck {
  private constructor(
    readonly keys: KeyHistory,
    /** Undefined for a log without a journal. */
    readonly logId: string | undefined,
  ) {}

  static async open(dir: string): Promise<RecordCheck> {
    const keys = KeyHistory.ofTrusted(await keysOfLog(dir))
    const facts = await factsOfLog(dir, keys)
    return new RecordCheck(keys, facts?.logId)
  }

  /**
   * Why the stored line of a day is not a record of the log; undefined if it is.
   *
   * @param leaf undefined if it is not known: then every key counts that the log has or had.
   */
  async failureOf(line: Buffer, day: string, leaf?: number): Promise<FailureKind | undefined> {
    const logId = this.logId === undefined ? undefined : shortLogId(this.logId)
    const { failure, record } = checkLine(line, { keys: this.keys, logId, day }, leaf)
    if (failure !== undefined || record === undefined || !isVote(record)) return failure?.kind
    return (await voteFailure(record))?.kind
  }
}
