// The refusal of a log whose parts do not lead to each other.

import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'

class Unlinked extends AuditError {
  /** The message ends with the two ways to continue. */
  constructor(
    readonly what: string,
    cause?: unknown,
  ) {
    super(
      'log_unlinked',
      `the log cannot be continued: ${what}. Put the missing or changed files back, or begin a log that names this one as its parent: npx svc-sdk audit fork DIR`,
      cause,
    )
  }
}

/** @param cause an error of the log's files, whose message is added. */
export function inconsistentLog(what: string, cause?: unknown): AuditError {
  return new Unlinked(cause === undefined ? what : `${what} (${messageOf(cause)})`, cause)
}

/** Rebuilds what is damaged; a refusal then begins with `damage`. */
export async function rebuildDamaged(damage: string, rebuild: () => Promise<void>): Promise<void> {
  try {
    await rebuild()
  } catch (error) {
    if (!(error instanceof Unlinked)) throw error
    throw new Unlinked(`${damage}, and the logs do not have what it had: ${error.what}`, error)
  }
}
