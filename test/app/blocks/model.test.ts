// Gateways with a board that goes down, is lost, or comes back: whatever happens, no block ends early.
import type { KeyValueStore } from '@svc/core'
import { PatternError } from '@svc/core/match'
import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import fc from 'fast-check'
import type { Block } from 'svc-sdk/internal/blocks/block'
import { Blocks } from 'svc-sdk/internal/blocks/blocks'
import { Board } from 'svc-sdk/internal/blocks/board'
import type { BlocksFile } from 'svc-sdk/internal/blocks/kept-blocks'
import { blockStage } from 'svc-sdk/internal/blocks/stage'
import { FakeClock } from 'svc-sdk/testing'
import { keepingLogger } from '../../support/logger.js'
import { propertyRuns } from '../../support/property-runs.js'
import { explain, send } from '../../support/stage-rig.js'

/** When a file without blocks was written. */
const NOWHEN = { wall: 0, steady: 0, boot: 0 }

/** A store that can be cut off from one gateway, and lose what it has. */
class Deployment {
  readonly clock = new FakeClock()
  store = new MemoryKeyValueStore({ clock: this.clock })
  readonly ended: string[] = []
  readonly down = new Set<number>()
  /** Gateways that write to the store and cannot read it. */
  readonly unread = new Set<number>()
  readonly gateways: Blocks[]
  readonly files: object[] = []
  isDiskFull = false
  isFirstStart = false
  /** Whether the store gives notices; the gateways that get them. */
  hasNotices = false
  readonly watchers = new Set<() => void>()
  reads = 0
  /** Something that happens while the store is read. */
  duringRead: (() => void) | undefined
  /** Attempts of gateways to say that they live. */
  signs = 0

  constructor(count: number) {
    this.gateways = Array.from({ length: count }, (_, index) => this.start(index))
  }

  start(index: number): Blocks {
    return new Blocks({
      clock: this.clock,
      logger: keepingLogger(),
      file: {
        read: () =>
          this.files[index] ?? (this.isFirstStart ? undefined : { version: '', at: NOWHEN, blocks: [] }),
        write: (kept: object) => {
          if (this.isDiskFull) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
          this.files[index] = kept
        },
      } as unknown as BlocksFile,
      open: async () => this.#boardOf(index),
      allowsUnknown: () => false,
      changed: () => undefined,
      ended: ({ id }: Block) => this.ended.push(id),
    })
  }

  #boardOf(index: number): Board {
    const run = <T>(act: (store: KeyValueStore) => Promise<T>): Promise<T> =>
      this.down.has(index) ? Promise.reject(new Error('down')) : act(this.store)
    return new Board({
      get: (...given) => run((store) => store.get(...given)),
      watch: (_space, changed) => {
        this.watchers.add(changed)
        const hasNotices = () => this.hasNotices
        return {
          get isLive() {
            return hasNotices()
          },
          close: () => this.watchers.delete(changed),
        }
      },
      scan: async (...given) => {
        if (this.unread.has(index)) throw new Error('unread')
        if (given[0].name === 'board') this.reads++
        const page = await run((store) => store.scan(...given))
        this.duringRead?.()
        return page
      },
      commit: async (...given) => {
        if (given[0].name === 'board-readers') {
          this.signs++
          if (this.isDiskFull) throw new Error('the board could not be written: No space left on device')
        }
        return run((store) => store.commit(...given))
      },
    })
  }

  notify(): void {
    for (const changed of this.watchers) changed()
  }

  /** Every gateway that has the store exchanges its changes with all others. */
  async settle(): Promise<void> {
    for (let round = 0; round < 3; round++) for (const gateway of this.gateways) await gateway.look()
  }
}

const DAY = 86_400_000
const given = { kind: 'server', pattern: 'billing', reason: 'r', by: 'ops' } as const
const idsOf = (gateway: Blocks | undefined) => (gateway?.list.blocks ?? []).map(({ id }) => id).sort()

describe('blocks of several gateways', () => {
  it('hold everywhere until their end or until they are lifted, whatever fails', async () => {
    const at = fc.nat(2)
    const step = fc.oneof(
      fc.record({
        do: fc.constant('set' as const),
        at,
        ms: fc.option(fc.integer({ min: 500, max: 20_000 }), { nil: undefined, freq: 3 }),
      }),
      fc.record({ do: fc.constant('lift' as const), at, which: fc.nat(5) }),
      fc.record({ do: fc.constant('wait' as const), at, ms: fc.integer({ min: 1, max: 5_000 }) }),
      fc.record({
        do: fc.constant('jump' as const),
        at,
        ms: fc.constantFrom(20_000, -20_000, 400 * DAY, -400 * DAY),
      }),
      fc.record({
        do: fc.constantFrom(
          'cut' as const,
          'joined' as const,
          'look' as const,
          'unread' as const,
          'lift-away' as const,
          'restart' as const,
          'lose' as const,
          'full' as const,
        ),
        at,
      }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const all = new Deployment(3)
        const model = new Map<string, number>()
        for (const one of steps) {
          const gateway = all.gateways[one.at]
          switch (one.do) {
            case 'set': {
              const { block } = gateway!.set(given, one.ms)
              model.set(block.id, all.clock.monotonic() + (one.ms ?? Number.POSITIVE_INFINITY))
              // It holds where it was set, before anything else.
              expect(idsOf(gateway)).to.include(block.id)
              break
            }
            case 'lift': {
              const id = idsOf(gateway)[one.which]
              // A gateway that has the store lifts for all; of others it is tested below.
              if (id === undefined || all.down.size > 0) break
              await all.settle()
              gateway?.lift(id)
              model.delete(id)
              await all.settle()
              break
            }
            case 'wait':
              all.clock.advance(one.ms)
              break
            case 'jump':
              all.clock.set(all.clock.now() + one.ms)
              break
            case 'cut':
              all.down.add(one.at)
              break
            case 'joined':
              all.down.delete(one.at)
              break
            case 'look':
              await gateway?.look()
              break
            case 'unread':
              all.unread.add(one.at)
              await gateway?.look()
              all.unread.delete(one.at)
              break
            case 'lift-away': {
              // Another gateway lifts a block while this one is stopped.
              const others = all.gateways.filter((other) => other !== gateway)
              const [lifting] = others
              if (all.down.size > 0) break
              for (let round = 0; round < 3; round++) for (const other of others) await other.look()
              const id = idsOf(lifting)[0]
              if (id !== undefined) await lifting?.lift(id)
              model.delete(id ?? '')
              for (const other of others) await other.look()
              all.gateways[one.at] = all.start(one.at)
              break
            }
            case 'restart':
              if (!all.isDiskFull) all.gateways[one.at] = all.start(one.at)
              break
            case 'lose':
              // What every gateway knows is not lost with the store.
              await all.settle()
              all.store = new MemoryKeyValueStore({ clock: all.clock })
              break
            case 'full':
              all.isDiskFull = true
              await gateway?.look()
              all.isDiskFull = false
              await gateway?.look()
          }
        }
        all.down.clear()
        await all.settle()
        await all.settle()
        const now = all.clock.monotonic()
        const expected = [...model].filter(([, end]) => end > now).map(([id]) => id)
        for (const gateway of all.gateways) expect(idsOf(gateway)).to.deep.equal(expected.sort())
        expect(all.ended).to.have.length(new Set(all.ended).size)
      }),
      { seed: 2612, numRuns: propertyRuns(150) },
    )
  })

  it('end by themselves, and one of the gateways says so', async () => {
    const all = new Deployment(3)
    const { block } = all.gateways[0]!.set(given, 2_000)
    await all.settle()
    all.clock.advance(1_999)
    for (const gateway of all.gateways) expect(idsOf(gateway)).to.deep.equal([block.id])
    all.clock.advance(1)
    for (const gateway of all.gateways) expect(idsOf(gateway)).to.deep.equal([])
    expect(all.ended).to.deep.equal([])
    await all.settle()
    expect(all.ended).to.deep.equal([block.id])
  })

  for (const jump of [DAY, -DAY]) {
    it(`last as long after a restart without the store if the wall clock was set by ${jump / DAY} day`, () => {
      const all = new Deployment(1)
      all.down.add(0)
      const { block } = all.gateways[0]!.set(given, 60_000)
      all.clock.advance(20_000)
      all.clock.set(all.clock.now() + jump)
      const restarted = all.start(0)
      all.clock.advance(39_999)
      expect(idsOf(restarted)).to.deep.equal([block.id])
      all.clock.advance(1)
      expect(idsOf(restarted)).to.deep.equal([])
    })
  }

  it('are read twice a second from a store that cannot be written, which is tried every ten seconds', async () => {
    const all = new Deployment(1)
    all.isDiskFull = true
    for (let look = 0; look < 40; look++) {
      await all.gateways[0]!.look()
      all.clock.advance(500)
    }
    expect(all.signs).to.equal(2)
    all.isDiskFull = false
    all.gateways[0]!.set(given, 60_000)
    await all.settle()
    expect(await new Board(all.store).readers()).to.have.length(1)
  })

  it('are read with each sign of life from a store that gives notices, and twice a second from one that gives none', async () => {
    const all = new Deployment(1)
    const readsInTenSeconds = async (): Promise<number> => {
      const before = all.reads
      for (let tick = 0; tick < 20; tick++) {
        await all.gateways[0]!.lookIfDue()
        all.clock.advance(500)
      }
      return all.reads - before
    }
    expect(await readsInTenSeconds()).to.equal(20)
    all.hasNotices = true
    await readsInTenSeconds()
    expect(await readsInTenSeconds()).to.equal(2)
    all.hasNotices = false
    expect(await readsInTenSeconds()).to.equal(20)
  })

  it('are read again if a notice comes while they are read', async () => {
    const all = new Deployment(1)
    all.hasNotices = true
    await all.settle()
    const put = () =>
      new Board(all.store).put('a', JSON.stringify({ ...given, id: 'a', at: '', until: null }), DAY)
    all.duringRead = () => {
      all.duringRead = undefined
      void put().then(() => all.notify())
    }
    await all.gateways[0]!.look()
    await new Promise(setImmediate)
    expect(idsOf(all.gateways[0])).to.deep.equal(['a'])
  })

  for (const isFirst of [true, false])
    it(`lifted elsewhere while this gateway could write to the store and not read it, end here too${isFirst ? ' after its first look' : ''}`, async () => {
      const all = new Deployment(2)
      if (!isFirst) await all.settle()
      all.unread.add(0)
      const { block, spread } = all.gateways[0]!.set(given)
      expect(await spread).to.have.property('store_error', 'unread')
      await all.gateways[1]!.look()
      await all.gateways[1]!.lift(block.id)
      await all.gateways[1]!.look()
      all.unread.clear()
      all.gateways[0] = all.start(0)
      await all.settle()
      expect(all.gateways.map(idsOf)).to.deep.equal([[], []])
    })

  it('hold although the store is lost before the list was read', async () => {
    const all = new Deployment(1)
    all.unread.add(0)
    const { block } = all.gateways[0]!.set(given)
    await all.gateways[0]!.look()
    all.store = new MemoryKeyValueStore({ clock: all.clock })
    all.unread.clear()
    await all.settle()
    expect(idsOf(all.gateways[0])).to.deep.equal([block.id])
    expect((await new Board(all.store).read('')).entries).to.have.length(1)
  })

  it('lifted while the store is down end there at once, and elsewhere when it is back', async () => {
    const all = new Deployment(2)
    const { block } = all.gateways[0]!.set(given, 60_000)
    await all.settle()
    all.down.add(1)
    await all.gateways[1]!.lift(block.id)?.spread
    expect(all.gateways.map(idsOf)).to.deep.equal([[block.id], []])
    all.down.clear()
    await all.settle()
    expect(all.gateways.map(idsOf)).to.deep.equal([[], []])
  })

  it('without an end hold whatever the clock says, and after a restart', async () => {
    const all = new Deployment(1)
    const { block } = all.gateways[0]!.set(given)
    expect(block.until).to.equal(null)
    await all.settle()
    all.clock.set(Date.UTC(2300, 0))
    all.gateways[0] = all.start(0)
    await all.settle()
    all.clock.advance(86_400_000 * 4000)
    expect(idsOf(all.gateways[0])).to.deep.equal([block.id])
  })

  it('of which nothing is known yet are not taken for none: the gateway says so until it has read the list', async () => {
    const all = new Deployment(1)
    all.isFirstStart = true
    all.down.add(0)
    const gateway = all.start(0)
    await gateway.look()
    expect(gateway.isKnown).to.equal(false)
    all.down.clear()
    await gateway.look()
    expect(gateway.isKnown).to.equal(true)
  })

  for (const pattern of ['srv/50%', 'srv/a/b', 'srv/a@b@c', 'srv/..'])
    it(`whose pattern does not compile are refused, and nothing is kept of them: ${pattern}`, async () => {
      const all = new Deployment(2)
      expect(() => all.gateways[0]!.set({ ...given, kind: 'tool', pattern })).to.throw(PatternError)
      await all.settle()
      expect(all.files.flatMap((kept) => ('blocks' in kept ? kept.blocks : []))).to.deep.equal([])
      for (const gateway of all.gateways) {
        expect(idsOf(gateway)).to.deep.equal([])
        expect(gateway.list.findServer('any')).to.equal(undefined)
      }
    })

  it('set before the list was ever read do not make it known after a restart', async () => {
    const all = new Deployment(2)
    const other = all.gateways[1]!.set(given).block
    await all.gateways[1]!.look()
    all.isFirstStart = true
    all.down.add(0)
    const { block } = all.start(0).set(given)
    const restarted = all.start(0)
    expect(restarted.isKnown).to.equal(false)
    expect(idsOf(restarted)).to.deep.equal([block.id])
    all.down.clear()
    await restarted.look()
    expect(restarted.isKnown).to.equal(true)
    expect(idsOf(restarted)).to.deep.equal([block.id, other.id].sort())
    expect(all.start(0).isKnown).to.equal(true)
  })

  it('set and lifted while the store is down reach the others after a restart', async () => {
    const all = new Deployment(2)
    const lifted = all.gateways[0]!.set(given).block
    await all.settle()
    all.down.add(0)
    const set = all.gateways[0]!.set(given).block
    all.gateways[0]!.lift(lifted.id)
    all.gateways[0] = all.start(0)
    // The board moves meanwhile.
    const other = all.gateways[1]!.set(given).block
    await all.settle()
    all.down.clear()
    await all.settle()
    for (const gateway of all.gateways) expect(idsOf(gateway)).to.deep.equal([set.id, other.id].sort())
  })

  it('are applied by others although further changes come during each exchange', async () => {
    const all = new Deployment(1)
    const gateway = all.gateways[0]!
    await all.settle()
    const scan = all.store.scan.bind(all.store)
    let more = 3
    all.store.scan = async (...asked) => {
      const page = await scan(...asked)
      if (asked[0].name === 'board' && more-- > 0) gateway.set(given)
      return page
    }
    const spread = await gateway.set(given).spread
    expect(spread).to.not.have.property('store_error')
    expect(spread.acknowledged).to.have.length(1)
  })

  it('of which nothing is known yet refuse calls in an explanation too, and say why', async () => {
    const stage = blockStage({ current: () => undefined, reason: () => 'down' })
    const { lines, outcome } = await explain(stage)
    expect(lines.join()).to.contain('what operators have blocked could not be read yet: down')
    expect(outcome).to.include({ code: 'STORE_UNAVAILABLE' })
    expect(outcome).to.deep.equal((await send(stage)).outcome)
  })

  it('that cannot be read refuse every call, until they are lifted', async () => {
    const all = new Deployment(2)
    for (const [id, value] of [
      ['a', '{'],
      ['b', JSON.stringify({ ...given, id: 'b', kind: 'new kind', at: '', until: null })],
      ['c', JSON.stringify({ ...given, id: 'c', kind: 'tool', pattern: 'a/b@@c/d', at: '', until: null })],
    ] as const) {
      await new Board(all.store).put(id, value, 60_000)
      await all.settle()
      for (const gateway of all.gateways) {
        expect(gateway.list.findServer('any')?.id).to.equal(id)
        expect(idsOf(gateway)).to.deep.equal([id])
      }
      all.gateways[0]!.lift(id)
      await all.settle()
      for (const gateway of all.gateways) expect(gateway.list.findServer('any')).to.equal(undefined)
    }
  })
})
