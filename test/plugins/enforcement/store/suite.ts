// What escalations must do, whatever store they are kept in.

import type { KeyValueStore } from '@svc/core'
import { type EscalationEntry, EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import fc from 'fast-check'

/** About now, as the clock of a server cannot be set. */
const NOON = Date.now()
const DAY = 86_400_000
const none = { replaces: undefined, maxPending: 20, maxInputBytes: 100, now: NOON }

export interface OpenStore {
  readonly store: KeyValueStore
  /** Lets milliseconds pass for the store. */
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

export function entry(id: string, more: Partial<EscalationEntry> = {}): EscalationEntry {
  return {
    id,
    fingerprint: `of ${id}`,
    principal: 'ann',
    isPending: true,
    createdAt: NOON,
    wakeAt: more.dueAt ?? NOON + 1000,
    // Longer than a test takes, as some stores count by the clock of a server.
    dueAt: NOON + 60_000,
    forgetAt: NOON + DAY,
    version: 1,
    body: '{"a":"ü\\u0000"}',
    ...more,
  }
}

const ids = (entries: readonly EscalationEntry[]) => entries.map(({ id }) => id)

/** `open` gives a store without entries each time. `runs` bounds the random trials of a store that is slow. */
export function escalationStoreSuite(name: string, open: () => Promise<OpenStore>, runs = 50): void {
  describe(`escalation store ${name}`, () => {
    let opened: OpenStore
    let store: EscalationStore

    beforeEach(async () => {
      opened = await open()
      store = new EscalationStore(opened.store)
    })

    afterEach(() => opened.close())

    /** Replaces what is stored, or what would be before it. */
    async function replace(next: EscalationEntry): Promise<boolean> {
      const stored = (await store.get(next.id)) ?? next
      return store.replace(next, { ...stored, version: next.version - 1 })
    }

    it('gives the page after a time in either order, if no entry has that place', async () => {
      for (const id of ['Z-1', 'a', 'z_9']) await store.open(entry(id), none)
      await store.open(entry('early', { createdAt: NOON - 1 }), none)
      await store.open(entry('late', { createdAt: NOON + 1 }), none)
      for (const isPending of [true, false]) {
        const pageAfter = (id: string, first: 'oldest' | 'newest') =>
          store.page({ id, createdAt: NOON }, 9, { isPending, first })
        expect(ids(await pageAfter('~', 'oldest'))).to.deep.equal(['late'])
        expect(ids(await pageAfter('!', 'newest'))).to.deep.equal(['early'])
      }
    })

    describe('an entry', () => {
      it('is kept as it was given', async () => {
        expect(await store.open(entry('a'), none)).to.equal('opened')
        expect(await store.get('a')).to.deep.equal(entry('a'))
        expect(await store.latest('of a')).to.deep.equal(entry('a'))
        expect(await store.get('b')).to.equal(undefined)
        expect(await store.latest('of b')).to.equal(undefined)
      })

      it('is the newest of its fingerprint if its opener has read the one before', async () => {
        await store.open(entry('a', { fingerprint: 'f' }), none)
        const next = entry('b', { fingerprint: 'f' })
        expect(await store.open(next, none)).to.equal('raced')
        expect(await store.open(next, { ...none, replaces: 'c' })).to.equal('raced')
        expect(await store.get('b')).to.equal(undefined)
        expect(await store.open(next, { ...none, replaces: 'a' })).to.equal('opened')
        expect(await store.latest('f')).to.deep.equal(next)
        expect(await store.get('a')).to.include({ id: 'a' })
        expect(await store.open(entry('c'), { ...none, replaces: 'a' })).to.equal('raced')
      })

      it('does not replace an entry with its id', async () => {
        await store.open(entry('a'), none)
        const other = entry('a', { fingerprint: 'f', body: 'other' })
        expect(await store.open(other, none)).to.equal('raced')
        expect(await store.get('a')).to.deep.equal(entry('a'))
        expect(await store.latest('f')).to.equal(undefined)
      })

      it('is refused beyond the number that may be pending for a principal', async () => {
        const limit = { ...none, maxPending: 2 }
        await store.open(entry('a'), limit)
        await store.open(entry('b', { isPending: false }), limit)
        await store.open(entry('c', { principal: 'bob' }), limit)
        await store.open(entry('d'), limit)
        expect(await store.open(entry('e'), limit)).to.equal('full')
        expect(await store.get('e')).to.equal(undefined)
        expect(await store.open(entry('f', { isPending: false }), limit)).to.equal('opened')
        expect(await store.open(entry('g', { principal: 'bob' }), limit)).to.equal('opened')
        await replace(entry('a', { isPending: false, version: 2 }))
        expect(await store.open(entry('e'), limit)).to.equal('opened')
      })

      it('is not counted as pending when its time is over', async () => {
        await store.open(entry('a'), none)
        expect(await store.open(entry('b'), { ...none, maxPending: 1 })).to.equal('full')
        await opened.advance(60_000)
        const later = { ...none, now: NOON + 60_000, maxPending: 1 }
        expect(await store.open(entry('b', { dueAt: NOON + 120_000 }), later)).to.equal('opened')
        expect(await store.open(entry('c', { dueAt: NOON + 120_000 }), later)).to.equal('full')
      })

      it('is replaced only by its next version', async () => {
        await store.open(entry('a'), none)
        const second = entry('a', { version: 2, body: 'second' })
        expect(await replace(entry('a', { version: 3 }))).to.equal(false)
        expect(await replace(entry('a', { version: 1, body: 'again' }))).to.equal(false)
        expect(await replace(second)).to.equal(true)
        expect(await replace(second)).to.equal(false)
        expect(await store.get('a')).to.deep.equal(second)
        expect(await store.latest('of a')).to.deep.equal(second)
        expect(await replace(entry('b', { version: 2 }))).to.equal(false)
        expect(await store.get('b')).to.equal(undefined)
      })

      it('is removed only in the given version', async () => {
        await store.open(entry('a'), none)
        await store.open(entry('b', { fingerprint: 'of a' }), { ...none, replaces: 'a' })
        expect(await store.remove(entry('b', { version: 2 }))).to.equal(false)
        expect(await store.remove(entry('b'))).to.equal(true)
        expect(await store.remove(entry('b'))).to.equal(false)
        expect(await store.get('b')).to.equal(undefined)
        expect(await store.latest('of a')).to.equal(undefined)
        expect(await store.get('a')).to.include({ id: 'a' })
        expect(ids(await store.page(undefined, 9))).to.deep.equal(['a'])
        expect(await store.open(entry('c', { fingerprint: 'of a' }), none)).to.equal('opened')
      })
    })

    describe('an input', () => {
      it('is read by itself, and is in no entry', async () => {
        expect(await store.open(entry('a'), none, '{"a":"ü"}')).to.equal('opened')
        await store.open(entry('b'), none)
        expect(await store.input('a')).to.equal('{"a":"ü"}')
        expect(await store.input('b')).to.equal(undefined)
        expect(await store.get('a')).to.deep.equal(entry('a'))
        expect(await store.page(undefined, 9)).to.deep.equal([entry('b'), entry('a')])
      })

      it('survives changes of its entry, until it is removed', async () => {
        await store.open(entry('a'), none, '{}')
        await replace(entry('a', { version: 2, isPending: false }))
        await replace(entry('a', { version: 3 }))
        expect(await store.input('a')).to.equal('{}')
        await store.removeInput('a')
        await store.removeInput('b')
        expect(await store.input('a')).to.equal(undefined)
        expect(await store.get('a')).to.include({ version: 3 })
      })

      it('is deleted with its entry', async () => {
        await store.open(entry('a'), none, '{}')
        await store.remove(entry('a'))
        expect(await store.input('a')).to.equal(undefined)
        await store.open(entry('b', { forgetAt: NOON + 1000 }), none, '{}')
        await opened.advance(2000)
        expect(await store.input('b')).to.equal(undefined)
      })

      it('is refused beyond the pending bytes of a principal, unless it is the only one', async () => {
        expect(await store.open(entry('a'), none, 'x'.repeat(101))).to.equal('opened')
        expect(await store.open(entry('b'), none, 'x')).to.equal('full')
        expect(await store.input('b')).to.equal(undefined)
        expect(await store.open(entry('c', { principal: 'bob' }), none, 'é'.repeat(49))).to.equal('opened')
        expect(await store.open(entry('d', { principal: 'bob' }), none, 'xxx')).to.equal('full')
        expect(await store.open(entry('d', { principal: 'bob' }), none, 'xx')).to.equal('opened')
        await replace(entry('a', { version: 2, isPending: false }))
        expect(await store.open(entry('b'), none, 'x')).to.equal('opened')
      })

      it('is kept whatever its text and length', async () => {
        const text = `"\ud83d\ude00\n\u0000${'x'.repeat(4_000_000)}`
        await store.open(entry('a'), none, text)
        expect((await store.input('a')) === text).to.equal(true)
      })
    })

    describe('entries whose time is over', () => {
      it('are returned while they are pending, the earliest first', async () => {
        await store.open(entry('a', { dueAt: NOON + 30 }), none)
        await store.open(entry('b', { dueAt: NOON + 10 }), none)
        await store.open(entry('c', { dueAt: NOON + 20 }), none)
        await store.open(entry('d', { dueAt: NOON + 5, isPending: false }), none)
        expect(ids(await store.due(NOON + 9, 9))).to.deep.equal([])
        expect(ids(await store.due(NOON + 20, 9))).to.deep.equal(['b', 'c'])
        expect(ids(await store.due(NOON + 99, 2))).to.deep.equal(['b', 'c'])
        await replace(entry('b', { dueAt: NOON + 10, isPending: false, version: 2 }))
        expect(ids(await store.due(NOON + 99, 9))).to.deep.equal(['c', 'a'])
      })

      it('are found by their newest version', async () => {
        await store.open(entry('a'), none)
        await replace(entry('a', { version: 2, dueAt: NOON + 5000 }))
        expect(ids(await store.due(NOON + 4999, 9))).to.deep.equal([])
        expect(ids(await store.due(NOON + 5000, 9))).to.deep.equal(['a'])
        await replace(entry('a', { version: 3, isPending: false }))
        await replace(entry('a', { version: 4, isPending: true }))
        expect(ids(await store.due(NOON + 5000, 9))).to.deep.equal(['a'])
      })
    })

    describe('entries that are no longer needed', () => {
      it('are deleted as new ones are added', async () => {
        await store.open(entry('a', { forgetAt: NOON + 1000 }), none)
        await store.open(entry('b', { forgetAt: NOON + 60_000 }), none)
        await opened.advance(2000)
        await store.open(entry('c', { forgetAt: NOON + 99_000 }), { ...none, now: NOON + 2000 })
        expect(await store.get('a')).to.equal(undefined)
        expect(await store.latest('of a')).to.equal(undefined)
        expect(ids(await store.page(undefined, 9))).to.deep.equal(['c', 'b'])
      })

      it('are due at their next step, and count for their principal until they expire', async () => {
        const early = { wakeAt: NOON + 10, dueAt: NOON + 60_000 }
        await store.open(entry('a', early), none)
        expect(ids(await store.due(NOON + 9, 9))).to.deep.equal([])
        expect(ids(await store.due(NOON + 10, 9))).to.deep.equal(['a'])
        await replace(entry('a', { ...early, wakeAt: NOON + 30, version: 2 }))
        expect(ids(await store.due(NOON + 29, 9))).to.deep.equal([])
        expect(ids(await store.due(NOON + 30, 9))).to.deep.equal(['a'])
        const limits = { ...none, maxPending: 1 }
        expect(await store.open(entry('b'), limits)).to.equal('full')
        await opened.advance(60_000)
        expect(await store.open(entry('b'), { ...limits, now: NOON + 60_000 })).to.equal('opened')
      })

      it('are deleted as others become due, and do not count for their principal', async () => {
        await store.open(entry('a', { forgetAt: NOON + 1000, dueAt: NOON + 9 }), none)
        await opened.advance(2000)
        expect(ids(await store.due(NOON + 9, 9))).to.deep.equal([])
        expect(await store.get('a')).to.equal(undefined)
        expect(await store.open(entry('b'), { ...none, maxPending: 1 })).to.equal('opened')
      })

      it('are found by their newest version', async () => {
        await store.open(entry('a', { forgetAt: NOON + 60_000 }), none)
        await replace(entry('a', { version: 2 }))
        await opened.advance(61_000)
        expect(await store.get('a')).to.include({ version: 2 })
        expect(await store.latest('of a')).to.include({ version: 2 })
      })

      it('leave a newer entry of their fingerprint in place', async () => {
        await store.open(entry('a', { fingerprint: 'f', forgetAt: NOON + 1000 }), none)
        await store.open(entry('b', { fingerprint: 'f' }), { ...none, replaces: 'a' })
        await opened.advance(2000)
        expect(await store.get('a')).to.equal(undefined)
        expect(await store.latest('f')).to.include({ id: 'b' })
      })
    })

    describe('pages', () => {
      it('begin with the newest entry, and continue after the last one of the page before', async () => {
        for (const [id, age] of Object.entries({ a: 3, b: 1, c: 2, d: 1, e: 1 })) {
          await store.open(entry(id, { createdAt: NOON - age }), none)
        }
        const first = await store.page(undefined, 2)
        expect(ids(first)).to.deep.equal(['e', 'd'])
        const second = await store.page(first.at(-1), 2)
        expect(ids(second)).to.deep.equal(['b', 'c'])
        expect(ids(await store.page(second.at(-1), 2))).to.deep.equal(['a'])
        expect(await store.page(entry('a', { createdAt: NOON - 3 }), 2)).to.deep.equal([])
      })

      it('continue after an entry that is deleted', async () => {
        for (const [id, age] of Object.entries({ a: 2, b: 1, c: 0 })) {
          await store.open(entry(id, { createdAt: NOON - age }), none)
        }
        const gone = entry('b', { createdAt: NOON - 1 })
        await store.remove(gone)
        expect(ids(await store.page(gone, 9))).to.deep.equal(['a'])
      })
    })

    // Entries of one millisecond are frequent: a page that ends among them must lose none.
    it('has pages of all or of the pending entries, either end first, whatever is decided between two pages', async () => {
      const order = fc.record({
        isPending: fc.boolean(),
        first: fc.constantFrom('newest' as const, 'oldest' as const),
        limit: fc.integer({ min: 1, max: 4 }),
        ages: fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.boolean()), { maxLength: 9 }),
        /** Decided when the page that ends with it has been read. */
        decided: fc.boolean(),
      })
      let trial = 0
      await fc.assert(
        fc.asyncProperty(order, async ({ isPending, first, limit, ages, decided }) => {
          for (const one of await store.page(undefined, 99)) await store.remove(one)
          trial++
          const made = ages.map(([age, isOpen], at) =>
            entry(`t${trial}-${at}`, { createdAt: NOON - age, isPending: isOpen }),
          )
          for (const one of made) await store.open(one, none)
          const oldestFirst = made
            .filter((one) => one.isPending || !isPending)
            .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
          const read: string[] = []
          for (let last: EscalationEntry | undefined; ; ) {
            const page = await store.page(last, limit, { isPending, first })
            read.push(...ids(page))
            last = page.at(-1)
            if (last === undefined) break
            const { version } = last
            if (decided && last.isPending) await replace({ ...last, isPending: false, version: version + 1 })
          }
          expect(read).to.deep.equal(ids(first === 'oldest' ? oldestFirst : oldestFirst.toReversed()))
        }),
        { numRuns: runs, seed: 7 },
      )
    })

    it('applies one of many concurrent changes', async () => {
      await store.open(entry('a'), none)
      const changes = await Promise.all(
        Array.from({ length: 20 }, (_, i) => replace(entry('a', { version: 2, body: `${i}` }))),
      )
      expect(changes.filter(Boolean)).to.have.length(1)
      expect((await store.get('a'))?.body).to.equal(`${changes.indexOf(true)}`)
    })

    it('opens one of many concurrent entries of one call', async () => {
      const openings = await Promise.all(
        Array.from({ length: 20 }, (_, i) => store.open(entry(`e${i}`, { fingerprint: 'f' }), none)),
      )
      expect(openings.filter((response) => response === 'opened')).to.have.length(1)
      expect((await store.latest('f'))?.id).to.equal(`e${openings.indexOf('opened')}`)
    })

    it('keeps any text', async () => {
      let n = 0
      await fc.assert(
        fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 200 }), async (text) => {
          const given = entry(`t${++n}`, { body: text, principal: `p ${text.slice(0, 50)}` })
          expect(await store.open(given, none)).to.equal('opened')
          expect(await store.get(given.id)).to.deep.equal(given)
        }),
        { numRuns: runs },
      )
      const long = entry('long', { body: 'x'.repeat(64 * 1024) })
      await store.open(long, none)
      expect(await store.get('long')).to.deep.equal(long)
    })
  })
}
