import { expect } from 'chai'
import { ListCache } from 'svc-sdk/internal/federation/server-lists'
import { FakeClock } from 'svc-sdk/testing'

describe('the lists of a client', () => {
  const key = { server: 'files', kind: 'tools', scope: 'a' } as const
  const list = (characters: number) => ({
    entries: [],
    characters,
    ttlMs: undefined,
    isCut: false,
  })

  it('are kept for their time and scope; simultaneous requests share one read', async () => {
    const clock = new FakeClock()
    const cache = new ListCache(clock, 'acme')
    let reads = 0
    const read = async () => {
      reads++
      return list(10)
    }
    await Promise.all([cache.of(key, 1_000, read), cache.of(key, 1_000, read)])
    await cache.of(key, 1_000, read)
    expect(reads).to.equal(1)
    cache.changed('files', ['tools'])
    await cache.of(key, 1_000, read)
    expect(reads).to.equal(2)
    expect(cache.last({ ...key, scope: 'b' })).to.equal(undefined)
    await cache.of({ ...key, scope: 'b' }, 1_000, read)
    expect(cache.last(key)).to.equal(undefined)
    cache.clear()
    expect(cache.last({ ...key, scope: 'b' })).to.equal(undefined)
  })

  it('of one tenant do not take memory from those of another', async () => {
    const clock = new FakeClock()
    const other = new ListCache(clock, 'other')
    await other.of(key, 1_000, async () => list(1_000))
    const greedy = Array.from({ length: 100 }, () => new ListCache(clock, 'greedy'))
    for (const cache of greedy) await cache.of(key, 1_000, async () => list(16 * 1_048_576))
    expect(other.last(key)).to.include({ characters: 1_000 })
    expect(greedy.filter((cache) => cache.last(key) !== undefined)).to.have.lengthOf.within(0, 20)
    for (const cache of [other, ...greedy]) cache.clear()
  })
})
