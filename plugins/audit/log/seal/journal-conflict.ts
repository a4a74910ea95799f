// Several processes append to the journal; the one that comes second loads the tree again and repeats its work.

import { setTimeout as after } from 'node:timers/promises'
import { AuditError } from '../format/errors.js'

const MAX_ATTEMPTS = 30
const MAX_PAUSE_MS = 20

/** Another process has appended to the journal in the meantime; load the tree again. */
export class JournalConflictError extends Error {
  constructor() {
    super('another process has appended to audit.journal in the meantime')
  }
}

/**
 * Runs `work`, and again while other processes are faster, after random pauses.
 *
 * @throws {AuditError} `journal_busy` when they always are; a later call may succeed.
 */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof JournalConflictError)) throw error
      if (attempt === MAX_ATTEMPTS) {
        const what = `other processes appended to audit.journal during each of ${attempt} attempts; try again`
        throw new AuditError('journal_busy', what, error)
      }
      await after(Math.random() * Math.min(attempt, MAX_PAUSE_MS))
    }
  }
}
