// The refusal of a log whose parts do not lead to each other.

import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'

/** The two ways out are named in every such message. */
export function unlinked(what: string, cause?: unknown): AuditError {
  const why = cause === undefined ? what : `${what} (${messageOf(cause)})`
  return new AuditError(
    'log_unlinked',
    `the log cannot be continued: ${why}. Put the missing or changed files back, or begin a log that names this one as its parent: svc audit fork`,
    cause,
  )
}
