// What proves the gateway, or the caller by way of it, to an upstream. A broker leaves it on the call; the
// dispatchers of both protocols put it into the request.
import type { AnswerHeaders } from './outcome.js'

/** The head of an upstream's answer. */
export interface AnswerHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: AnswerHeaders
}

export interface Credential {
  /** Name of the header, in lower case. A header of the caller's with this name is never forwarded. */
  readonly header: string
  /** The header's whole value: a secret. */
  readonly value: string
  /**
   * Told the head of the answer to the request that carried it. What it returns is a credential to send the
   * same call with once more: only where the answer shows that the tool did not run. Undefined: the answer
   * stands. The dispatcher repeats a call at most once, and counts it in `call.retries`.
   */
  answered?(head: AnswerHead): Promise<Credential | undefined> | Credential | undefined
}
