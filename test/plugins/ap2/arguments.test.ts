import type { JsonValue } from '@svc/core/json'
import { MandateError } from '@svc/plugin-ap2/internal/mandate/error'
import { bindingSchema, checkArguments, valueAt } from '@svc/plugin-ap2/internal/verify/arguments'
import { minorUnitsOf } from '@svc/plugin-ap2/internal/verify/money'
import type { Terms } from '@svc/plugin-ap2/internal/verify/signed-mandate'
import { expect } from 'chai'
import fc from 'fast-check'

const terms: Terms = {
  total: 19900,
  currency: 'USD',
  merchant: 'm1',
  items: new Map([['shoe', 2]]),
  instrument: 'card_1',
}
const binding = {
  total: '/order/total',
  currency: '/order/currency',
  merchant: { is: 'm1' },
  items: '/order/items',
  instrument: '/card',
}
const args = {
  card: 'card_1',
  order: { total: 19900, currency: 'USD', items: [{ id: 'shoe', quantity: 2 }] },
}

function reasonOf(changed: JsonValue, bound: object = binding, ...mandates: Terms[]): string {
  try {
    checkArguments(mandates.length === 0 ? [terms] : mandates, changed, bindingSchema.parse(bound))
    return 'equal'
  } catch (error) {
    if (error instanceof MandateError) return error.reason
    throw error
  }
}

describe('the arguments of a call', () => {
  it('are accepted if they are equal to the terms that the mandate bounds', () => {
    expect(reasonOf(args)).to.equal('equal')
  })

  it('differ in any term', () => {
    const { order } = args
    const others: readonly JsonValue[] = [
      { ...args, card: 'card_2' },
      { order },
      { ...args, order: { ...order, total: 19901 } },
      { ...args, order: { ...order, total: '19900.0' } },
      { ...args, order: { ...order, currency: 'EUR' } },
      { ...args, order: { ...order, items: [] } },
      { ...args, order: { ...order, items: [{ id: 'shoe', quantity: 3 }] } },
      { ...args, order: { ...order, items: [{ id: 'shoe', quantity: 2.5 }] } },
      { ...args, order: { ...order, items: [{ id: 'shoe', quantity: 2 }, 'lace'] } },
      { ...args, order: { ...order, items: { shoe: 2 } } },
      'text',
      null,
    ]
    for (const changed of others)
      expect(reasonOf(changed), JSON.stringify(changed)).to.equal('ap2_cart_mismatch')
    expect(reasonOf(args, { ...binding, merchant: { is: 'm2' } })).to.equal('ap2_cart_mismatch')
  })

  it('are refused if no pointer names a bounded term', () => {
    for (const name of Object.keys(binding)) {
      const { [name]: _, ...fewer } = binding as Record<string, unknown>
      expect(reasonOf(args, fewer), name).to.equal('ap2_cart_mismatch')
    }
    expect(() => checkArguments([terms], args, undefined)).to.throw(MandateError)
    expect(() => checkArguments([{}], args, undefined)).to.not.throw()
  })

  it('are refused at a bound place that no mandate bounds, even if nothing is there', () => {
    const { instrument, ...checkout } = terms
    const { card: _, ...withoutCard } = args
    expect(reasonOf(args, binding, checkout, { instrument: 'card_1' })).to.equal('equal')
    for (const changed of [args, withoutCard]) {
      expect(reasonOf(changed, binding, checkout)).to.equal('ap2_cart_mismatch')
      expect(reasonOf(changed, { ...binding, instrument: { is: instrument } }, checkout)).to.equal(
        'ap2_cart_mismatch',
      )
    }
  })

  it('have no payment service and no date if the payment mandate has none', () => {
    const bound = { ...binding, pisp: '/pisp', executionDate: '/date' }
    const payment = { ...terms, pisp: null, executionDate: null }
    expect(reasonOf(args, bound, payment)).to.equal('equal')
    expect(reasonOf({ ...args, date: null }, bound, payment)).to.equal('equal')
    expect(reasonOf({ ...args, date: '2030-01-01' }, bound, payment)).to.equal('ap2_cart_mismatch')
    expect(reasonOf(args, bound)).to.equal('ap2_cart_mismatch')
  })

  it('may have the total in major units, and items of another form', () => {
    const major = { ...binding, totalUnit: 'major', items: { list: '/lines', id: '/sku', quantity: '/n' } }
    const changed = (total: JsonValue, lines: JsonValue) => ({
      card: 'card_1',
      order: { total, currency: 'USD' },
      lines,
    })
    expect(reasonOf(changed('199.00', [{ sku: 'shoe', n: 2 }]), major)).to.equal('equal')
    expect(reasonOf(changed(199, ['shoe', { sku: 'shoe' }]), major)).to.equal('equal')
    expect(reasonOf(changed('199.001', ['shoe', 'shoe']), major)).to.equal('ap2_cart_mismatch')
  })

  it('are found by JSON pointers (RFC 6901)', () => {
    const value = { 'a/b': 1, 'm~n': [{ x: 2 }, 3], '': 4 }
    expect(valueAt('/a~1b', value)).to.equal(1)
    expect(valueAt('/m~0n/0/x', value)).to.equal(2)
    expect(valueAt('/m~0n/01', value)).to.equal(undefined)
    expect(valueAt('/', value)).to.equal(4)
    expect(valueAt('', value)).to.equal(value)
    for (const pointer of ['/toString', '/m~0n/length', '/__proto__']) {
      expect(valueAt(pointer, value), pointer).to.equal(undefined)
    }
    for (const [pointer, object] of [
      ['/a~1b', { 'A/b': 1 }],
      ['/m~0n/0/x', { 'm~n': [{ x: 1, X: 2 }] }],
      ['/k', { '\u212a': 1 }],
      ['/é', { 'e\u0301': 1 }],
    ] as [string, JsonValue][]) {
      expect(() => valueAt(pointer, object), pointer).to.throw(MandateError)
    }
    expect(bindingSchema.safeParse({ total: 'order/total' }).success).to.equal(false)
    expect(bindingSchema.safeParse({ total: '/a~2' }).success).to.equal(false)
  })
})

describe('an amount in major units', () => {
  it('is exact in minor units, by the digits of its currency', () => {
    expect(minorUnitsOf('19.9', 'USD')).to.equal(1990)
    expect(minorUnitsOf(19.99, 'USD')).to.equal(1999)
    expect(minorUnitsOf('1990', 'JPY')).to.equal(1990)
    expect(minorUnitsOf('1.990', 'JPY')).to.equal(undefined)
    expect(minorUnitsOf('1.234', 'KWD')).to.equal(1234)
    for (const bad of ['-1', '1e3', '', '.5', '1.999', 'NaN', '1'.repeat(16)]) {
      expect(minorUnitsOf(bad, 'USD'), bad).to.equal(undefined)
    }
  })

  it('has the minor units that it was made from', () => {
    fc.assert(
      fc.property(fc.nat(), (minor) => {
        expect(minorUnitsOf((minor / 100).toFixed(2), 'EUR')).to.equal(minor)
      }),
    )
  })
})
