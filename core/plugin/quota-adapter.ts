// The storage interface for usage limits.
import type { StoreLifecycle } from './store-lifecycle.js'

/** Milliseconds since the epoch, a Date, or an instant in ISO 8601 with a time zone. */
export type ResetAt = number | Date | string

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
  /** Reverts `incrDaily` for a call that was not sent; optional. */
  refundDaily?(tenant: string, tool: string, now?: number): Promise<void>
}
