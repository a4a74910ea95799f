// The credential for an upstream. A broker sets it on the call; the dispatchers of both protocols add it to the request.
import type { ResponseHeaders } from './outcome.js'

/** The head of an upstream's response. */
export interface ResponseHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: ResponseHeaders
}

export interface Credential {
  /** Name of the header, in lower case. The caller's own header of this name is never forwarded. */
  readonly header: string
  /** The header's whole value: a secret. */
  readonly value: string
  /**
   * Called with the head of the response. May return another credential with which the call is repeated, but only if
   * the response shows that the tool did not run. Undefined: the response is final. The dispatcher repeats a call at
   * most once and counts it in `call.retries`.
   */
  onResponse?(head: ResponseHead): Promise<Credential | undefined> | Credential | undefined
}
