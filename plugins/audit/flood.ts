// Limits the records of calls that are refused before anybody is identified: they share a number of records and bytes a
// second, and one record a second counts the rest.
import { type Call, identity, type Settlement } from '@svc/core'

const MAX_RECORDS_PER_SECOND = 50
const MAX_BYTES_PER_SECOND = 128 * 1024

/** Whether the call ended before its caller was identified, or because of how the caller presented itself. */
export function isUnidentified(call: Call, { sent, error }: Settlement): boolean {
  if (sent !== 'no' || error === null) return false
  const caller = call.get(identity)
  if (caller === undefined) return true
  return !caller.authenticated && (error === 'UNAUTHENTICATED' || error === 'UNAUTHORIZED_TENANT')
}

export class FloodLimiter {
  #second = -1
  #recorded = 0
  #bytes = 0
  #suppressed = 0

  /** Whether the call refused at `nowMs` gets a record of its own, of `bytes`; otherwise it is counted. */
  admit(nowMs: number, bytes: number): boolean {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#recorded = 0
      this.#bytes = 0
    }
    if (this.#recorded < MAX_RECORDS_PER_SECOND && this.#bytes + bytes <= MAX_BYTES_PER_SECOND) {
      this.#recorded++
      this.#bytes += bytes
      return true
    }
    this.#suppressed++
    return false
  }

  /** Returns and resets the count. */
  takeSuppressed(): number {
    const suppressed = this.#suppressed
    this.#suppressed = 0
    return suppressed
  }
}
