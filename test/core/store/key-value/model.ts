// Checks a store of keys and values against a model: random operations of several clients, which crash, pause between a read
// and the write that depends on it, do not get a response, and have wall clocks that jump.
import assert from 'node:assert/strict'
import type { Entry, KeyValueStore, Space, Write } from '@svc/core'
import { Chance } from '../../../support/chance.js'

/** One store with several clients. */
export interface Deployment {
  /** A client; those of a store in memory are the same. */
  open(): Promise<KeyValueStore>
  /** Lets milliseconds pass for the store. */
  advance(ms: number): Promise<void>
  /** Sets the wall clock of the clients wrong by so many milliseconds; the time of the store is to go on evenly. */
  jump(ms: number): void
  close(): Promise<void>
}

/** What is modelled: spaces of each kind, with few keys, so that clients meet. */
const spaces: readonly [Space, ...Space[]] = [
  { name: 'plain' },
  { name: 'tracked', isTracked: true },
  { name: 'list', isOrdered: true, isTracked: true },
  { name: 'bounded', isOrdered: true, maxEntries: 3 },
]
const keys = ['a', 'a/1', 'a/2', 'b', 'b/1'] as const
/** Longer than a slow machine takes for a run. */
const times = [600_000, 3_000_000, 36_000_000] as const
const CLIENTS = 3

type Known = Map<string, Entry>

/** The store as it has to be. */
class Model {
  now = 0
  #spaces = new Map<string, { readonly entries: Known; commits: number }>()

  of(space: Space): { readonly entries: Known; commits: number } {
    const known = this.#spaces.get(space.name) ?? { entries: new Map(), commits: 0 }
    this.#spaces.set(space.name, known)
    for (const [key, { endsAt }] of known.entries) if (endsAt <= this.now) known.entries.delete(key)
    return known
  }

  commit(space: Space, writes: readonly Write[]): boolean {
    const known = this.of(space)
    const isExpected = ({ key, expect }: Write) =>
      expect === undefined || (known.entries.get(key)?.version ?? null) === expect
    if (!writes.every(isExpected)) return false
    for (const { key, value, version, owner = '', ttlMs = Infinity } of writes) {
      known.entries.delete(key)
      if (value === undefined) continue
      const [writtenAt, endsAt] = [this.now, this.now + ttlMs]
      known.entries.set(key, { key, value, version, owner, writtenAt, endsAt })
    }
    known.commits++
    const { maxEntries = Infinity } = space
    const byEnd = [...known.entries.values()].sort((a, b) => a.endsAt - b.endsAt || (a.key < b.key ? -1 : 1))
    for (const { key } of byEnd.slice(0, Math.max(0, byEnd.length - maxEntries))) known.entries.delete(key)
    return true
  }
}

/** Entries without their instants, which the clock of a real server blurs. */
function shown(entries: readonly (Entry | undefined)[] | undefined): unknown {
  return entries?.map((entry) => entry && [entry.key, entry.value, entry.version, entry.owner])
}

/** @throws {AssertionError} for the first difference */
export async function checkKeyValue(deployment: Deployment, seed: number, steps: number): Promise<void> {
  const chance = new Chance(seed)
  const run = new Run(deployment, chance)
  await run.start()
  for (let step = 0; step < steps; step++) {
    try {
      await run.step()
    } catch (error) {
      throw new Error(`seed ${seed}, step ${step}: ${error instanceof Error ? error.message : error}`, {
        cause: error,
      })
    }
  }
  await run.close()
}

class Run {
  #deployment: Deployment
  #chance: Chance
  #model = new Model()
  #clients: KeyValueStore[] = []
  #revisions = new Map<string, Set<string>>()
  #writes = 0

  constructor(deployment: Deployment, chance: Chance) {
    this.#deployment = deployment
    this.#chance = chance
  }

  async start(): Promise<void> {
    for (let n = 0; n < CLIENTS; n++) this.#clients.push(await this.#deployment.open())
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close?.()
  }

  async step(): Promise<void> {
    const space = this.#chance.pick(spaces) as Space
    const acts: [() => Promise<void>, ...(() => Promise<void>)[]] = [
      () => this.#read(space),
      () => this.#commit(space),
      () => this.#commit(space),
      () => this.#race(space),
      () => this.#scan(space),
      () => this.#loseResponse(space),
      () => this.#pass(),
      () => this.#restart(),
    ]
    await this.#chance.pick(acts)()
  }

  async #read(space: Space): Promise<void> {
    const { entries } = await this.#client.get(space, keys)
    const { entries: known } = this.#model.of(space)
    assert.deepEqual(shown(entries), shown(keys.map((key) => known.get(key))), 'what is read')
    for (const [i, entry] of entries.entries()) this.#checkTimes(entry, known.get(keys[i] ?? ''))
  }

  async #commit(space: Space): Promise<void> {
    // The entry that ends first is removed: two that end at once would leave it open which.
    if (space.maxEntries !== undefined) await this.#passFor(10)
    const writes = this.#someWrites(space)
    const before = this.#model.of(space)
    const held = writes.map(({ key }) => before.entries.get(key))
    const commit = await this.#client.commit(space, writes)
    assert.equal(commit.isDone, this.#model.commit(space, writes), 'whether a commit is done')
    if (!commit.isDone) assert.deepEqual(shown(commit.entries), shown(held), 'what a commit has met')
    this.#checkRevision(space, commit.revision, commit.isDone)
  }

  /** Clients that have read the same version write at the same time: one of them wins. */
  async #race(space: Space): Promise<void> {
    // The winner may be removed at once from a space that is full.
    if (space.maxEntries !== undefined) return
    const key = this.#chance.pick(keys)
    const expect = this.#model.of(space).entries.get(key)?.version ?? null
    const rivals = this.#clients.map((client) => {
      const write = { ...this.#write(key), expect }
      return client.commit(space, [write]).then(({ isDone }) => ({ isDone, write }))
    })
    const winners = (await Promise.all(rivals)).filter(({ isDone }) => isDone)
    assert.equal(winners.length, 1, 'one of the clients that expect the same version wins')
    for (const { write } of winners) this.#model.commit(space, [write])
    await this.#read(space)
  }

  async #scan(space: Space): Promise<void> {
    if (space.isOrdered !== true) return
    const { entries: known } = this.#model.of(space)
    const prefix = this.#chance.pick(['', 'a/', 'b'])
    const isReverse = this.#chance.int(0, 1) === 1
    const limit = this.#chance.int(1, 3)
    const sorted = [...known.values()]
      .filter(({ key }) => key.startsWith(prefix) && key.length > prefix.length)
      .sort((a, b) => (a.key < b.key ? -1 : 1))
    const wanted = isReverse ? sorted.toReversed() : sorted
    const found: Entry[] = []
    let revision = ''
    for (let after: string | undefined; ; after = found.at(-1)?.key) {
      const page = await this.#client.scan(space, { prefix, after, limit, isReverse })
      revision = page.revision
      found.push(...(page.entries ?? []))
      if ((page.entries ?? []).length < limit) break
    }
    assert.deepEqual(shown(found), shown(wanted), 'what is scanned')
    if (space.isTracked !== true || revision === '') return
    const { entries } = await this.#client.scan(space, { prefix, limit, since: revision })
    assert.equal(entries, undefined, 'nothing has changed since the last scan')
  }

  /** The client does not see the response, and finds out by the version whether its commit was carried out. */
  async #loseResponse(space: Space): Promise<void> {
    if (space.maxEntries !== undefined) return
    const write = this.#write(this.#chance.pick(keys))
    const expect = this.#model.of(space).entries.get(write.key)?.version ?? null
    await this.#client.commit(space, [{ ...write, expect }])
    const again = await this.#client.commit(space, [{ ...write, expect }])
    assert.equal(again.isDone, false, 'a commit that is repeated is not done again')
    assert.equal(again.entries[0]?.version, write.version, 'a repeated commit meets its own version')
    this.#model.commit(space, [{ ...write, expect }])
  }

  async #pass(): Promise<void> {
    const ms = this.#chance.pick([600_000, 2_700_000, 3_000_000, 36_000_000])
    if (this.#chance.int(0, 1) === 1) this.#deployment.jump(this.#chance.pick([-86_400_000, 3_600_000, 0]))
    await this.#passFor(ms)
  }

  async #passFor(ms: number): Promise<void> {
    await this.#deployment.advance(ms)
    this.#model.now += ms
  }

  async #restart(): Promise<void> {
    const n = this.#chance.int(0, CLIENTS - 1)
    await this.#clients[n]?.close?.()
    this.#clients[n] = await this.#deployment.open()
  }

  #someWrites(space: Space): Write[] {
    const wanted = keys.filter(() => this.#chance.int(0, 2) === 0)
    const chosen = wanted.length === 0 ? [keys[0]] : wanted
    return chosen.map((key) => {
      const version = this.#model.of(space).entries.get(key)?.version ?? null
      const expect = this.#chance.pick<string | null | undefined>([
        version,
        version,
        undefined,
        'stale',
        null,
      ])
      const write = { ...this.#write(key), ...(expect === undefined ? {} : { expect }) }
      return this.#chance.int(0, 3) === 0 ? { ...write, value: undefined } : write
    })
  }

  #write(key: string): Write & { readonly value: string } {
    const n = this.#writes++
    const ttlMs = this.#chance.int(0, 3) === 0 ? undefined : this.#chance.pick(times)
    return { key, value: `value ${n}\nü`, version: `v${n}`, owner: `o${n % 2}`, ttlMs }
  }

  get #client(): KeyValueStore {
    const client = this.#clients[this.#chance.int(0, CLIENTS - 1)]
    if (client === undefined) throw new Error('no client')
    return client
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
    if (space.isTracked !== true || !isNew) return
    const seen = this.#revisions.get(space.name) ?? new Set()
    assert.ok(!seen.has(revision) && revision !== '', `the revision ${revision} is new`)
    this.#revisions.set(space.name, seen.add(revision))
  }
}
