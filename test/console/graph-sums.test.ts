// The numbers of the graph of callers and servers, against the sums of the API, also if its lists are cut.
import { expect } from 'chai'
import fc from 'fast-check'
import { graphOf } from 'svc-sdk/internal/console/ui/servers/graph-model'
import { type CallSums, withCalls } from 'svc-sdk/internal/console/ui/servers/load'

const names = fc.constantFrom(...Array.from({ length: 40 }, (_, at) => `n${at}`))
const count = fc.nat({ max: 9 })
const pairs = fc.uniqueArray(
  fc.record({ tenant: fc.constant('acme'), caller: names, server: names, allowed: count, denied: count }),
  { selector: ({ caller, server }) => `${caller} ${server}`, maxLength: 120 },
)
const row = fc.record({
  ...{ tenant: fc.constant('acme'), caller: names, server: names, tool: names },
  ...{ decision: fc.constantFrom('allow', 'deny'), status: fc.constantFrom('ok', 'error') },
  kind: fc.constant('call'),
})

function sumOf<Name extends string>(all: readonly Readonly<Record<Name, number>>[], name: Name): number {
  return all.reduce((sum, one) => sum + one[name], 0)
}

describe('the graph of callers and servers', () => {
  it('has the sums of all calls, in its nodes those of the pairs, and says what they lack', () => {
    fc.assert(
      fc.property(pairs, fc.nat({ max: 50 }), fc.array(row, { maxLength: 20 }), (all, shown, rows) => {
        const whole = all.map((one) => ({ ...one, failed: 0 }))
        const read: CallSums = {
          ...{ allowed: sumOf(whole, 'allowed'), denied: sumOf(whole, 'denied'), failed: 0 },
          ...{ pairs: whole.slice(0, shown), pairs_more: whole.length > shown },
          ...{ routes: [], routes_more: false },
        }
        const calls = withCalls(read, { rows, one_in: 2 } as never)
        const { total, undrawn, callers, servers, edges } = graphOf({
          ...{ servers: [], calls, waiting: [] },
        } as never)
        const denied = rows.filter(({ decision }) => decision === 'deny').length
        expect([total.sent, total.denied]).to.deep.equal([
          read.allowed + 2 * (rows.length - denied),
          read.denied + 2 * denied,
        ])
        for (const of of [callers, servers, edges])
          for (const name of ['sent', 'denied', 'failed'] as const)
            expect(sumOf(of, name) + undrawn[name]).to.equal(total[name])
        expect(undrawn.sent).to.equal(sumOf(whole.slice(shown), 'allowed'))
      }),
    )
  })
})
