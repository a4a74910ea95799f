// The credential for an upstream. A broker sets it on the call; the dispatchers of both protocols add it to the request.
import type { AnswerHeaders } from './outcome.js'

/** The head of an upstream's answer. */
export interface AnswerHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: AnswerHeaders
}

export interface Credential {
  /** Name of the header, in lower case. The caller's own header of this name is never forwarded. */
  readonly header: string
  /** The header's whole value: a secret. */
  readonly value: string
  /**
   * Called with the head of the answer. May return another credential with which the call is repeated: only where the
   * answer shows that the tool did not run. Undefined: the answer is final. The dispatcher repeats a call at most once
   * and counts it in `call.retries`.
   */
  answered?(head: AnswerHead): Promise<Credential | undefined> | Credential | undefined
}
