// The daily counts taken for one call, given back when it is not sent.
import type { Hold, QuotaAdapter } from '@svc/core'

type Refund = NonNullable<QuotaAdapter['refundDaily']>

export class DailyHold implements Hold {
  #refund: Refund
  #tenant: string
  #taken: { readonly key: string; readonly at: number }[] = []

  constructor(refund: Refund, tenant: string) {
    this.#refund = refund
    this.#tenant = tenant
  }

  /** `resetAt` names the day that was counted in: the call may end in the next one. */
  add(key: string, resetAt: number): void {
    this.#taken.push({ key, at: resetAt - 1 })
  }

  /** Nothing to do: it was counted when it was taken. */
  commit(): undefined {
    return undefined
  }

  async release(): Promise<void> {
    const refunds = this.#taken.splice(0).map(({ key, at }) => this.#refund(this.#tenant, key, at))
    const faults = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    if (faults.length > 0) {
      throw new AggregateError(
        faults.map(({ reason }) => reason),
        'daily counts could not be given back',
      )
    }
  }
}
