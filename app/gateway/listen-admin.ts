// Opens the listener for operators, and says in its errors that it is that one.
import type { Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'

interface AdminPort {
  /** If another process has the port, there is no listener in this one. */
  readonly isShared: boolean
  readonly logger: Logger
}

/** Resolves with the result of `listen`. */
export async function listenAdmin<T>(
  listen: () => Promise<T>,
  { isShared, logger }: AdminPort,
): Promise<T | undefined> {
  try {
    return await listen()
  } catch (error) {
    const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
    const message = messageOf(error)
    if (isShared && isTaken) {
      logger.warn({ reason: message }, 'no admin listener in this process')
      return undefined
    }
    // A mistake of a key names it already.
    if (message.startsWith('admin.')) throw error
    const explained = new Error(`admin: ${message}`, { cause: error })
    throw isTaken ? Object.assign(explained, { code: 'EADDRINUSE' }) : explained
  }
}
