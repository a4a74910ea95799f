import { type MapBounds, memoryMap, type SharedMap } from '@svc/core/store'
import { ServedDefinitions } from '@svc/plugin-protections/internal/definitions/served'
import { expect } from 'chai'

const DAY = 86_400_000

/** A store of two gateways. */
class Store {
  passed = 0
  reads = 0
  readonly clock = { now: () => this.passed, monotonic: () => this.passed }
  readonly #maps = new Map<string, SharedMap>()

  gateway(): ServedDefinitions {
    return new ServedDefinitions(
      { map: (name, bounds) => this.#map(name, bounds), close: async () => undefined },
      this.clock,
    )
  }

  #map(name: string, bounds: MapBounds): SharedMap {
    const map = this.#maps.get(name) ?? memoryMap(bounds, this.clock)
    this.#maps.set(name, map)
    const get: SharedMap['get'] = async (group, names) => {
      if (name === 'served-pages') this.reads += names.length
      return map.get(group, names)
    }
    return {
      get,
      set: (...given) => map.set(...given),
      add: (...given) => map.add(...given),
      replace: (...given) => map.replace(...given),
      delete: (...given) => map.delete(...given),
    }
  }
}

const page = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [`tool ${name}`, 'a'.repeat(64)]))
const noted = (names: readonly string[]) => ({ served: page(names), withheld: {}, isCut: false })

describe('what callers were served', () => {
  it('is known of two servers that send the same page', async () => {
    const store = new Store()
    const first = store.gateway()
    await first.note('files', 'ann', noted(['read']))
    await first.note('mail', 'ann', noted(['read']))
    for (const server of ['files', 'mail']) {
      expect((await store.gateway().of(server, 'ann', 'tool read')).sha256, server).to.equal('a'.repeat(64))
    }
  })

  it('stays known for thirty days after the page was last served, and not only after it was first', async () => {
    const store = new Store()
    const first = store.gateway()
    await first.note('files', 'ann', noted(['read']))
    store.passed = 25 * DAY
    await first.note('files', 'ann', noted(['read']))
    store.passed = 40 * DAY
    const second = store.gateway()
    expect((await second.of('files', 'ann', 'tool read')).sha256).to.equal('a'.repeat(64))
    store.passed = 60 * DAY
    expect((await store.gateway().of('files', 'ann', 'tool read')).sha256).to.equal(null)
  })

  it('takes bounded memory: pages that were not used for long are read again', async () => {
    const store = new Store()
    const gateway = store.gateway()
    const wide = (number: number) =>
      Array.from({ length: 400 }, (_, index) => `${number}-${index}-${'n'.repeat(1_000)}`)
    for (let number = 0; number < 45; number++)
      await gateway.note('files', `caller-${number}`, noted(wide(number)))
    store.reads = 0
    const last = wide(44)[0]
    await gateway.of('files', 'caller-44', `tool ${last}`)
    expect(store.reads, 'the newest page is kept').to.equal(0)
    const [oldest] = wide(0)
    expect((await gateway.of('files', 'caller-0', `tool ${oldest}`)).sha256).to.equal('a'.repeat(64))
    expect(store.reads, 'the oldest page is read again').to.equal(1)
  })
})
