// The daily counts taken for one call, refunded when it is not sent.
import type { Hold, MaybePromise } from '@svc/core'

export class DailyHold implements Hold {
  #refunds: (() => MaybePromise<void>)[] = []

  add(refund: () => MaybePromise<void>): void {
    this.#refunds.push(refund)
  }

  /** Nothing to do: the count was stored when it was taken. */
  commit(): undefined {
    return undefined
  }

  async release(): Promise<void> {
    const refunds = this.#refunds.splice(0).map(async (refund) => refund())
    const faults = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    if (faults.length > 0) {
      throw new AggregateError(
        faults.map(({ reason }) => reason),
        'daily counts could not be refunded',
      )
    }
  }
}
