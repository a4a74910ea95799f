// The wall clock of the host jumps; what is kept for a time must be kept as long as if it had not.
import type { KeyValueStore } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { MemoryKeyValueStore, mapIn, type SharedMap } from '@svc/core/store'
import { expect } from 'chai'
import fc from 'fast-check'
import { Board } from 'svc-sdk/internal/blocks/board'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOON = Date.UTC(2026, 5, 15, 12)
const TTL = HOUR

/** A host; processes come and go. */
class Host {
  /** Milliseconds that the wall clock is wrong by. */
  wrongBy = 0
  /** Milliseconds since the start. */
  passed = 0
  map: SharedMap
  board: Board
  #store: KeyValueStore
  readonly #dir: string
  readonly clock = {
    now: () => NOON + this.passed + this.wrongBy,
    monotonic: () => 1_000 + this.passed,
  }

  constructor(dir: string) {
    this.#dir = dir
    ;[this.#store, this.map, this.board] = this.#open()
  }

  async restart(): Promise<void> {
    await this.close()
    ;[this.#store, this.map, this.board] = this.#open()
  }

  async close(): Promise<void> {
    await this.#store.close?.()
  }

  #open() {
    const store = new LmdbKeyValueStore({ dir: this.#dir, name: 'the store', clock: this.clock })
    return [store, mapIn(store, 'm', { ttlMs: TTL, maxEntries: 100 }), new Board(store)] as const
  }
}

const jumps = [1_000, HOUR, DAY, 40 * DAY, 3_650 * DAY].flatMap((ms) => [ms, -ms])
const name = fc.constantFrom('a', 'b')
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('set' as const), name }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('read' as const), name }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(1, 1_000, HOUR / 2, HOUR),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('jump' as const), ms: fc.constantFrom(...jumps) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
)

describe('a store on disk and a wall clock that jumps', () => {
  it('keeps values and blocks exactly as long as they are to be kept', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        using dir = new TemporaryDir()
        const host = new Host(dir.path)
        const ends = new Map<string, number>()
        for (const one of steps) {
          if (one.kind === 'pass') host.passed += one.ms
          else if (one.kind === 'jump') host.wrongBy = one.ms
          else if (one.kind === 'restart') await host.restart()
          else if (one.kind === 'set') {
            await host.map.set('g', [[one.name, 'v']])
            await host.board.put(one.name, 'v', TTL)
            ends.set(one.name, host.passed + TTL)
          } else {
            const leftMs = (ends.get(one.name) ?? 0) - host.passed
            expect(await host.map.get('g', [one.name])).to.deep.equal([leftMs > 0 ? 'v' : undefined])
            const { entries = [] } = await host.board.read('?')
            const block = entries.find(({ id }) => id === one.name)
            if (ends.has(one.name)) expect(block?.leftMs).to.equal(leftMs)
          }
        }
        await host.close()
      }),
      { numRuns: propertyRuns(25), seed: Number(process.env['SVC_SEED'] ?? 20261123) },
    )
  })

  it('has a time that passes evenly, as one in memory has', async () => {
    using dir = new TemporaryDir()
    const host = new Host(dir.path)
    const { clock } = host
    const disk = new LmdbKeyValueStore({ dir: `${dir.path}/other`, name: 'the store', clock })
    for (const store of [new MemoryKeyValueStore({ clock }), disk]) {
      host.wrongBy = 0
      const began = store.now()
      const write = { key: 'k', value: 'v', version: '1', ttlMs: DAY }
      await store.commit({ name: 's' }, [write])
      const from = host.passed
      for (const jump of [0, ...jumps]) {
        host.wrongBy = jump
        host.passed += 1_000
        expect(store.now() - began, String(jump)).to.equal(host.passed - from)
      }
    }
    await Promise.all([disk.close(), host.close()])
  })
})
