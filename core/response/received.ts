// The digest of a response as it was received, for the record of a call whose response a stage changed.
import type { Call } from '../call/call.js'
import { receivedDigest } from '../call/slots.js'

/** The first change counts: later ones, of outer stages, begin with a changed response. */
export function keepReceived(call: Call, sha256: string | null): void {
  call.set(receivedDigest, sha256)
}
