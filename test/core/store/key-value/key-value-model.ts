// The model of a store of keys and values, and the operations that are compared with it.
import assert from 'node:assert/strict'
import type { Bound, Entry, Scan, Space, SpaceState, Write } from '@svc/core'
import { EpochsModel } from './epochs-model.js'
import type { PortCheck, Store, World } from './run.js'

/** Spaces of each kind, with few keys, so that clients meet. */
const list: Space = { name: 'list', isOrdered: true, isTracked: true, isWatched: true }
const spaces: readonly [Space, ...Space[]] = [
  { name: 'plain' },
  { name: 'tracked', isTracked: true },
  list,
  { name: 'bounded', isOrdered: true, maxEntries: 3 },
  { name: 'owned', maxOwned: 2 },
]
const keys = ['a', 'a/1', 'a/2', 'b', 'b/1'] as const
/** Keys whose values are keys, and keys whose values are numbers. */
const references = ['r/1', 'r/2'] as const
const numbers = ['n/1', 'n/2', 'n/3'] as const
/** Longer than a slow machine takes for a run. */
const times = [600_000, 3_000_000, 36_000_000] as const

type Known = Map<string, Entry>

/** A space as it has to be. */
interface ModelSpace {
  readonly entries: Known
  readonly epochs: EpochsModel
}

class Model {
  #spaces = new Map<string, ModelSpace>()

  of({ name }: Space, now: number): ModelSpace {
    let space = this.#spaces.get(name)
    if (space === undefined) {
      space = { entries: new Map(), epochs: new EpochsModel() }
      this.#spaces.set(name, space)
    }
    for (const [key, { endsAt }] of space.entries) if (endsAt <= now) space.entries.delete(key)
    return space
  }

  lose(): void {
    for (const space of this.#spaces.values()) {
      space.entries.clear()
      space.epochs.lose()
    }
  }

  restart(client: number): void {
    for (const { epochs } of this.#spaces.values()) epochs.restart(client)
  }

  commit(space: Space, writes: readonly Write[], now: number, bound?: Bound): 'done' | 'conflict' | 'full' {
    const { entries } = this.of(space, now)
    const isExpected = ({ key, expect }: Write) =>
      expect === undefined || (entries.get(key)?.version ?? null) === expect
    if (!writes.every(isExpected)) return 'conflict'
    const { maxOwned = Infinity } = space
    const added = writes.filter(({ key, value }) => value !== undefined && !entries.has(key))
    const owned = (owner = '', all: Iterable<{ readonly owner?: string | undefined }>) =>
      [...all].filter((one) => one.owner === owner).length
    if (added.some(({ owner }) => owned(owner, entries.values()) + owned(owner, added) > maxOwned))
      return 'full'
    const before = new Map(entries)
    for (const { key, value, version, owner = '', ttlMs = Infinity } of writes) {
      entries.delete(key)
      if (value === undefined) continue
      entries.set(key, { key, value, version, owner, writtenAt: now, endsAt: now + ttlMs })
    }
    if (bound !== undefined && exceeds(entries, writes, bound)) {
      entries.clear()
      for (const [key, entry] of before) entries.set(key, entry)
      return 'full'
    }
    const { maxEntries = Infinity } = space
    const byEnd = [...entries.values()].sort((a, b) => a.endsAt - b.endsAt || (a.key < b.key ? -1 : 1))
    for (const { key } of byEnd.slice(0, Math.max(0, byEnd.length - maxEntries))) entries.delete(key)
    return 'done'
  }
}

/** Of entries with the writes; a deletion is of one that may stay counted. */
function exceeds(entries: Known, writes: readonly Write[], { prefix, maxEntries, maxTotal }: Bound): boolean {
  const below = [...entries.values()].filter(({ key }) => key.startsWith(prefix))
  const isNew = ({ key }: Entry) => writes.some((write) => write.key === key)
  const sum = (some: readonly Entry[]) => some.reduce((total, { value }) => total + Number(value), 0)
  const others = sum(below.filter((entry) => !isNew(entry)))
  return below.length > maxEntries || (others > 0 && sum(below) > maxTotal)
}

/** Entries without their instants, which the clock of a real server blurs. */
function shown(entries: readonly (Entry | undefined)[] | undefined): unknown {
  return entries?.map((entry) => entry && [entry.key, entry.value, entry.version, entry.owner])
}

export class KeyValueCheck implements PortCheck {
  readonly acts: readonly (() => Promise<void>)[]
  #world: World
  #model = new Model()
  #revisions = new Map<string, Set<string>>()
  #writes = 0

  constructor(world: World) {
    this.#world = world
    const inSpace = (act: (space: Space) => Promise<void>) => () => act(world.chance.pick(spaces))
    const commit = inSpace((space) => this.#commit(space))
    this.acts = [
      inSpace((space) => this.#read(space)),
      commit,
      commit,
      inSpace((space) => this.#race(space)),
      inSpace((space) => this.#scan(space)),
      inSpace((space) => this.#loseResponse(space)),
      () => this.#follow(),
      () => this.#fill(),
    ]
  }

  lost(): void {
    this.#model.lose()
  }

  restarted(client: number): void {
    this.#model.restart(client)
  }

  async #read(space: Space): Promise<void> {
    const { entries, ...state } = await this.#use(space, (client) => client.get(space, keys))
    const known = this.#known(space)
    assert.deepEqual(shown(entries), shown(keys.map((key) => known.get(key))), 'what is read')
    for (const [i, entry] of entries.entries()) this.#checkTimes(entry, known.get(keys[i] ?? ''))
    assert.ok(state.now > 0, 'the time of the store is told')
  }

  async #commit(space: Space): Promise<void> {
    // The entry that ends first is removed: two that end at once would leave it open which.
    if (space.maxEntries !== undefined) await this.#world.passFor(10)
    const writes = this.#someWrites(space)
    const known = this.#known(space)
    const held = writes.map(({ key }) => known.get(key))
    const commit = await this.#use(space, (client) => client.commit(space, writes))
    const result = this.#model.commit(space, writes, this.#world.now)
    assert.equal(commit.isDone, result === 'done', 'whether a commit is done')
    assert.equal(commit.isFull === true, result === 'full', 'whether an owner has too many entries')
    if (!commit.isDone) assert.deepEqual(shown(commit.entries), shown(held), 'what a commit has met')
    this.#checkRevision(space, commit.revision, commit.isDone)
  }

  /** Clients that have read the same version write at the same time: one of them wins. */
  async #race(space: Space): Promise<void> {
    // The winner may be removed at once from a space that is full, or there may be none.
    if (space.maxEntries !== undefined || space.maxOwned !== undefined) return
    const key = this.#world.chance.pick(keys)
    const expect = this.#known(space).get(key)?.version ?? null
    const rivals = this.#world.clients.map(async (client) => {
      const write = { ...this.#write(key), expect }
      return { isDone: (await client.commit(space, [write])).isDone, write }
    })
    const winners = (await Promise.all(rivals)).filter(({ isDone }) => isDone)
    for (const n of this.#world.clients.keys()) this.#model.of(space, this.#world.now).epochs.use(n)
    assert.equal(winners.length, 1, 'one of the clients that expect the same version wins')
    for (const { write } of winners) this.#model.commit(space, [write], this.#world.now)
    await this.#read(space)
  }

  async #scan(space: Space): Promise<void> {
    if (space.isOrdered !== true) return
    const prefix = this.#world.chance.pick(['', 'a/', 'b'])
    const isReverse = this.#world.chance.int(0, 1) === 1
    const limit = this.#world.chance.int(1, 3)
    const sorted = [...this.#known(space).values()]
      .filter(({ key }) => key.startsWith(prefix) && key.length > prefix.length)
      .sort((a, b) => (a.key < b.key ? -1 : 1))
    const found: Entry[] = []
    const scan = { prefix, limit, isReverse }
    let revision = ''
    for (let after: string | undefined; ; after = found.at(-1)?.key) {
      const page = await this.#page(space, { ...scan, after })
      revision = page.revision
      found.push(...(page.entries ?? []))
      if ((page.entries ?? []).length < limit) break
    }
    assert.deepEqual(shown(found), shown(isReverse ? sorted.toReversed() : sorted), 'what is scanned')
    if (space.isWatched !== true || revision === '') return
    const { entries } = await this.#page(space, { ...scan, since: revision })
    assert.equal(entries, undefined, 'nothing has changed since the last scan')
  }

  /** The client does not see the response, and finds out by the version whether its commit was carried out. */
  async #loseResponse(space: Space): Promise<void> {
    if (space.maxEntries !== undefined || space.maxOwned !== undefined) return
    const write = this.#write(this.#world.chance.pick(keys))
    const expect = this.#known(space).get(write.key)?.version ?? null
    await this.#use(space, (client) => client.commit(space, [{ ...write, expect }]))
    const again = await this.#use(space, (client) => client.commit(space, [{ ...write, expect }]))
    assert.equal(again.isDone, false, 'a commit that is repeated is not done again')
    assert.equal(again.entries[0]?.version, write.version, 'a repeated commit meets its own version')
    this.#model.commit(space, [{ ...write, expect }], this.#world.now)
  }

  /** Writes a reference, and reads through all of them. */
  async #follow(): Promise<void> {
    const { chance, now } = this.#world
    const write = { ...this.#write(chance.pick(references)), value: chance.pick(keys) }
    await this.#use(list, (client) => client.commit(list, [write]))
    this.#model.commit(list, [write], now)
    const known = this.#known(list)
    const targets = references.map((key) => known.get(known.get(key)?.value ?? ''))
    const { entries } = await this.#use(list, (client) => client.get(list, references, { follows: true }))
    assert.deepEqual(shown(entries), shown(targets), 'what is read through references')
    const page = await this.#page(list, { prefix: 'r/', limit: 9, follows: true })
    assert.deepEqual(shown(page.entries), shown(targets.filter((one) => one !== undefined)), 'and scanned')
  }

  /** Writes and removes numbers below a bound. */
  async #fill(): Promise<void> {
    const { chance } = this.#world
    const bound = { prefix: 'n/', maxEntries: 2, maxTotal: 10 }
    const chosen = numbers.filter(() => chance.int(0, 1) === 1)
    const writes = chosen.map((key) => {
      const write = { ...this.#write(key), value: String(chance.int(0, 12)) }
      return chance.int(0, 2) === 0 ? { ...write, value: undefined } : write
    })
    // What a commit removes still counts for its bound.
    if (writes.some(({ key, value }) => value === undefined && this.#known(list).has(key))) {
      const removals = writes.filter(({ value }) => value === undefined)
      await this.#use(list, (client) => client.commit(list, removals))
      this.#model.commit(list, removals, this.#world.now)
    }
    const added = writes.filter(({ value }) => value !== undefined)
    const { isDone, isFull } = await this.#use(list, (client) => client.commit(list, added, { bound }))
    const result = this.#model.commit(list, added, this.#world.now, bound)
    assert.deepEqual([isDone, isFull === true], [result === 'done', result === 'full'], 'what a bound allows')
  }

  #known(space: Space): Known {
    return this.#model.of(space, this.#world.now).entries
  }

  #page(space: Space, scan: Scan) {
    return this.#use(space, (client) => client.scan(space, scan))
  }

  /** By any client. Checks what it hears of a loss. */
  async #use<T extends SpaceState>(space: Space, act: (client: Store) => Promise<T>): Promise<T> {
    const { clients, chance, now } = this.#world
    const n = chance.int(0, clients.length - 1)
    const client = clients[n]
    if (client === undefined) throw new Error('no client')
    const result = await act(client)
    const isLost = space.isTracked === true && this.#model.of(space, now).epochs.use(n)
    assert.equal(result.lostAt !== undefined, isLost, 'whether the space was lost')
    return result
  }

  #someWrites(space: Space): Write[] {
    const { chance } = this.#world
    const wanted = keys.filter(() => chance.int(0, 2) === 0)
    const chosen = wanted.length === 0 ? [keys[0]] : wanted
    return chosen.map((key) => {
      const version = this.#known(space).get(key)?.version ?? null
      const expect = chance.pick<string | null | undefined>([version, version, undefined, 'stale', null])
      const write = { ...this.#write(key), ...(expect === undefined ? {} : { expect }) }
      return chance.int(0, 3) === 0 ? { ...write, value: undefined } : write
    })
  }

  #write(key: string): Write & { readonly value: string } {
    const n = this.#writes++
    const { chance } = this.#world
    const ttlMs = chance.int(0, 3) === 0 ? undefined : chance.pick(times)
    return { key, value: `value ${n}\nü`, version: `v${n}`, owner: key.slice(0, 1), ttlMs }
  }

  #checkTimes(entry: Entry | undefined, known: Entry | undefined): void {
    if (entry === undefined || known === undefined) return
    const [kept, wanted] = [entry.endsAt - entry.writtenAt, known.endsAt - known.writtenAt]
    assert.ok(
      kept === wanted || Math.abs(kept - wanted) < 300_000,
      `kept for ${kept} in place of ${wanted} ms`,
    )
  }

  #checkRevision(space: Space, revision: string, isNew: boolean): void {
    if (space.isWatched !== true || !isNew) return
    const seen = this.#revisions.get(space.name) ?? new Set()
    assert.ok(!seen.has(revision) && revision !== '', `the revision ${revision} is new`)
    this.#revisions.set(space.name, seen.add(revision))
  }
}
