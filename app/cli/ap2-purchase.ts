// The purchase that the options of `svc ap2 make` describe.
import type { Purchase } from '@svc/plugin-ap2/dev'

export interface PurchaseOptions {
  readonly total: number
  readonly currency: string
  readonly merchant: string
  readonly item: readonly string[]
  readonly instrument: string
}

/** @throws {Error} for an item of another form */
export function purchaseOf({ total, currency, merchant, item, instrument }: PurchaseOptions): Purchase {
  const items = item.map((text) => {
    const [, id, quantity = '1'] = /^(.+?)(?::([1-9]\d{0,6}))?$/.exec(text) ?? []
    if (id === undefined) throw new Error(`--item ${text}: expected an id, or id:quantity`)
    return { id, title: id, quantity: Number(quantity) }
  })
  return {
    total,
    currency,
    merchant: { id: merchant, name: merchant },
    items,
    instrument: { id: instrument, type: 'card' },
  }
}
