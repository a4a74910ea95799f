// Limits what callers can make the log write: records of calls that are refused before their caller is identified, and
// files of agent runs.
import { type Call, identity, type Settlement } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import type { AuditEnvelope } from './log/format/envelope.js'

const MAX_RECORDS_PER_SECOND = 50
const MAX_BYTES_PER_SECOND = 128 * 1024

/** Whether the call ended before its caller was identified, or because of how the caller presented itself. */
export function isUnidentified(call: Call, { sent, error }: Settlement): boolean {
  if (sent !== 'no') return false
  const caller = call.get(identity)
  if (caller === undefined) return true
  return !caller.authenticated && (error === 'UNAUTHENTICATED' || error === 'UNAUTHORIZED_TENANT')
}

/** Calls without an identified caller share a number of records and bytes a second; one record a second counts the rest. */
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

/** New runs of a tenant at once, and each second from then on. */
const BURST = 10_000
const PER_SECOND = 1
/** Known runs; beyond this the ones seen longest ago are forgotten and count as new again. */
const MAX_KNOWN = 50_000
const MAX_TENANTS = 10_000
/** Longer keys are hashed, to bound their memory. */
const MAX_KEY = 200

interface Bucket {
  tokens: number
  filledAt: number
}

/**
 * Limits the new agent runs that the records of a tenant name. Callers name them themselves, and the log has a file for
 * each, in directories of its own: without a limit one caller could use up the disk's inodes.
 */
export class AgentRunLimiter {
  #known = new BoundedMap<string, true>(MAX_KNOWN)
  #buckets = new BoundedMap<string, Bucket>(MAX_TENANTS)

  /** Whether the record may name its agent run. `nowMs` is the time of the call. */
  admit({ tenant, nodeId, agentRef, ts }: AuditEnvelope, nowMs: number): boolean {
    if (typeof nodeId !== 'string' || typeof agentRef !== 'string') return true
    const text = JSON.stringify([tenant, nodeId, agentRef, ts.slice(0, 10)])
    const key = text.length > MAX_KEY ? sha256Hex(text) : text
    if (!this.#known.has(key) && !this.#take(tenant, nowMs)) return false
    this.#known.set(key, true)
    return true
  }

  #take(tenant: string, nowMs: number): boolean {
    const bucket = this.#buckets.get(tenant) ?? { tokens: BURST, filledAt: nowMs }
    const refill = (Math.max(0, nowMs - bucket.filledAt) / 1000) * PER_SECOND
    bucket.tokens = Math.min(BURST, bucket.tokens + refill)
    bucket.filledAt = nowMs
    this.#buckets.set(tenant, bucket)
    if (bucket.tokens < 1) return false
    bucket.tokens--
    return true
  }
}
