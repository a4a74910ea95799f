// Rules on what a server sends its client besides responses: requests to the client's user or model, and notifications.
// A stage sets them; the transport applies them to each message before the client gets it, on every stream.
import type { JsonObject } from '../json/value.js'
import type { Call } from './call.js'
import type { Finding } from './finding.js'
import type { MaybePromise } from './maybe-promise.js'
import { slot } from './slot.js'

/** A request of a server to its client: a message of its own, or a member of `inputRequests` (2026-07-28). */
export interface AskedRequest {
  readonly method: string
  readonly params: JsonObject
}

export interface RefusedAsk {
  /** The finding against a call whose result asks for it: the server does not learn of the refusal, so the call is denied. */
  readonly finding: Finding
}

export interface ServerRequestRules {
  /**
   * The request as the client gets it, or its refusal. `call` is the one on whose stream it comes. Rejects with `Refusal`
   * if the decision cannot be recorded.
   */
  judge(call: Call, request: AskedRequest): Promise<AskedRequest | RefusedAsk>
  /** Adds a finding if the client's response must not reach the server. `asked` is undefined for a request that is not known. */
  judgeReply(call: Call, asked: AskedRequest | undefined, reply: JsonObject): Promise<void>
}

export interface ServerMethodRules {
  /** Whether the client gets a request or a notification of this method. */
  mayPass(call: Call, method: string): MaybePromise<boolean>
}

export const serverRequestRules = slot<ServerRequestRules>('serverRequestRules')
export const serverMethodRules = slot<ServerMethodRules>('serverMethodRules')

export function isRefusedAsk(judged: AskedRequest | RefusedAsk): judged is RefusedAsk {
  return 'finding' in judged
}
