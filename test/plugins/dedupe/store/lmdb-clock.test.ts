// The wall clock of the host jumps; keys must end as if it had not.
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { ClaimStore, type DedupeClaim, MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../support/property-runs.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const HOUR = 3_600_000
const LEASE = 10_000
const TTL = 24 * HOUR

const jumps = [LEASE / 2, LEASE, HOUR, TTL, 400 * TTL]
const claim = fc.record({ key: fc.constantFrom('a', 'b'), owner: fc.constantFrom('one', 'two', 'three') })
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('claim' as const), claim }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('markSent' as const, 'renew' as const, 'complete' as const, 'release' as const),
      claim,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(1_000, LEASE, HOUR, TTL),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('jump' as const),
      ms: fc.constantFrom(...jumps, ...jumps.map((ms) => -ms)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
)

describe('idempotency keys in LMDB and a wall clock that jumps', () => {
  it('end after the time that has passed, as keys do where the clock is right', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        using dir = new TemporaryDir()
        let passed = 0
        let wrongBy = 0
        const clock = { now: () => NOON + passed + wrongBy, monotonic: () => 1_000 + passed }
        const open = () => new ClaimStore(new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock }))
        const right = { now: () => NOON + passed, monotonic: () => 1_000 + passed }
        const model = new ClaimStore(new MemoryKeyValueStore({ clock: right }))
        let store = open()
        for (const one of steps) {
          if (one.kind === 'pass') passed += one.ms
          else if (one.kind === 'jump') wrongBy += one.ms
          else if (one.kind === 'restart') {
            await store.close()
            store = open()
          } else {
            const kept = { tenant: 'acme', maxKeys: 16, leaseMs: LEASE, ttlMs: TTL }
            const full: DedupeClaim = { fingerprint: 'f', ...kept, ...one.claim }
            const act = async (of: Pick<ClaimStore, typeof one.kind>) =>
              one.kind === 'complete' ? of.complete(full, null) : of[one.kind](full)
            expect(await act(store), one.kind).to.deep.equal(await act(model))
          }
        }
        await store.close()
      }),
      { seed: 25_3, numRuns: propertyRuns(60) },
    )
  })
})
