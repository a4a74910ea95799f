// Finds out whether a process that was silent for too long still answers.
import { isUpstreamError } from '../upstream/answer.js'
import type { Connection } from './supervisor.js'

/** Kills a process that does not answer within `timeoutMs`. Does not reject. */
export async function checkAnswers({ channel, server, kill }: Connection, timeoutMs: number): Promise<void> {
  try {
    const method = server.isStateless ? 'server/discover' : 'ping'
    await channel.ask(method, {}, AbortSignal.timeout(timeoutMs))
  } catch (fault) {
    // The channel of a process that has ended rejects with an UpstreamError.
    if (!isUpstreamError(fault)) kill('it answered neither a request nor a ping')
  }
}
