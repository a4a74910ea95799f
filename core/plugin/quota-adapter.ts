// The storage interface for usage limits.
import type { StoreLifecycle } from './store-lifecycle.js'

/** Milliseconds since the epoch, a Date, or an instant in ISO 8601 with a time zone. */
export type ResetAt = number | Date | string

/** A limit of a call, as `countCall` gets it; the fields are the arguments of `takeToken` and `incrDaily`. */
export type CountedLimit =
  | {
      readonly unit: 'rate'
      readonly tool: string
      readonly ratePerSec: number
      readonly burst?: number | undefined
    }
  | { readonly unit: 'day'; readonly tool: string; readonly callsPerDay: number }

/** The state of a limit in the store: the tokens left of a rate, or the count of a day. */
export interface LimitUse {
  readonly value: number
  readonly resetAt: ResetAt
}

export interface QuotaAdapter extends StoreLifecycle {
  /**
   * Counts one call for today (UTC) unless the limit is reached. `count > limit` means refused and not counted. `now`
   * is in milliseconds since the epoch.
   */
  incrDaily(
    tenant: string,
    tool: string,
    limit: number,
    now?: number,
  ): Promise<{ count: number; resetAt: ResetAt }>
  /**
   * Takes one token from a bucket refilled at `ratePerSec`, of size `burst` (default: the rate, at least 1).
   * `tokens < 0` means refused, and none was taken; otherwise `tokens` are left.
   */
  takeToken(
    tenant: string,
    tool: string,
    ratePerSec: number,
    burst?: number,
    now?: number,
  ): Promise<{ tokens: number; resetAt: ResetAt }>
  /**
   * Counts a call against all its limits at once; optional. It equals `takeToken` or `incrDaily` for one limit after the
   * other, up to the first that refuses, of which the response is the last.
   */
  countCall?(tenant: string, limits: readonly CountedLimit[], now?: number): Promise<readonly LimitUse[]>
  /** Reverts `incrDaily` for a call that was not sent; optional. */
  refundDaily?(tenant: string, tool: string, now?: number): Promise<void>
}
