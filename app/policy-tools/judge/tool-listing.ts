// The `tools/list` by which the judge is asked what a caller may use.
import { type CallAgent, callRequest, type Identity, trustedCaller } from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { noAgent, unsentCall } from './unsent-call.js'

/** A `tools/list` of the caller, or of one without a token if `who` is undefined. */
export function toolListing(who: Identity | undefined, server: string, version: string): CallControl {
  const request = callRequest({
    kind: 'protocol',
    method: 'tools/list',
    server,
    name: 'POST',
    version,
    args: {},
    idempotencyKey: null,
  })
  const call = unsentCall(request, { agent: nodeAgent(who) })
  if (who !== undefined) call.set(trustedCaller, { identity: who, scopes: new EveryScope() })
  return call
}

/** What a caller says of itself: the node that its token names. */
export function nodeAgent(who: Identity | undefined): CallAgent {
  return who?.nodeId === undefined ? noAgent : { ...noAgent, nodeId: who.nodeId }
}

/** The scopes of a caller whose token is not known: none is missing. */
export class EveryScope extends Set<string> {
  override has(): boolean {
    return true
  }
}
