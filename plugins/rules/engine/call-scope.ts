// The state that the evaluations of one call share.
import { FoldedMembers } from './members.js'

/** Estimated nanoseconds of all conditions of a call together: rules are many, and a caller could make each costly. */
const CALL_NS = 6_000_000

export class CallScope {
  leftNs = CALL_NS

  constructor(readonly members = new FoldedMembers()) {}
}
