import { join } from 'node:path'
import { hostClock } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { RedisKeyValueStore } from '@svc/core/redis'
import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { Board } from 'svc-sdk/internal/blocks/board'
import { type RedisServer, startRedis, until } from '../../support/redis.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

interface Kind {
  /** Two processes with the same board; a store in memory has one. */
  open(): Board
  end(): Promise<void>
}

function suite(title: string, prepare: () => Promise<Kind>): void {
  describe(title, () => {
    let kind: Kind
    let here: Board
    let there: Board

    before(async () => {
      kind = await prepare()
      here = kind.open()
      there = kind.open()
    })

    after(async () => {
      await here.close()
      await there.close()
      await kind.end()
    })

    it('has no version and no entries before the first', async () => {
      expect(await here.read('')).to.deep.include({ version: '', entries: undefined })
    })

    it('shows a new entry to all, with the time that it has left, and only its version to those who have it', async () => {
      const version = await here.put('a', '{"x":1}', 60_000)
      const { version: read, entries = [] } = await there.read('')
      expect(read).to.equal(version)
      expect(entries.map(({ id, value }) => [id, value])).to.deep.equal([['a', '{"x":1}']])
      expect(entries[0]?.leftMs).to.be.within(50_000, 60_001)
      expect(await there.read(version)).to.deep.include({ version, entries: undefined })
    })

    it('shows an entry that has ended until it is removed, once', async () => {
      await here.put('b', 'b', -5)
      const { entries = [] } = await there.read('')
      expect(entries.find(({ id }) => id === 'b')?.leftMs).to.be.lessThan(0)
      const removed = await Promise.all([here.remove('b'), there.remove('b')])
      expect(removed.filter((version) => version !== undefined)).to.have.length(1)
      expect((await there.read('')).entries?.map(({ id }) => id)).to.deep.equal(['a'])
    })

    it('counts its versions and keeps their first part', async () => {
      const [first, second] = [await here.put('c', '1', 1000), await there.put('c', '2', 1000)]
      const [epoch, count] = first.split(':')
      expect(second).to.equal(`${epoch}:${Number(count) + 1}`)
    })

    it('tells those who watch that another process has changed it, and not after they have ended the watch', async () => {
      const version = () => there.read('').then((state) => state.version)
      const seen: string[] = []
      let notices = 0
      const watch = there.watch(() => {
        notices++
        void version().then((read) => seen.push(read))
      })
      await until(async () => watch.isLive)
      const put = await here.put('d', '1', 1000)
      const removed = await here.remove('d')
      await until(async () => seen.includes(removed ?? put))
      watch.close()
      notices = 0
      await here.put('e', '1', 1000)
      await version()
      expect(notices).to.equal(0)
    })

    it('says which reader has which version, and how long ago it read', async () => {
      await here.seen({ id: '1', name: 'one', version: 'x:1' })
      await there.seen({ id: '2', name: 'two', version: '' })
      const readers = await here.readers()
      const shown = readers.map(({ id, name, version }) => [id, name, version]).sort()
      expect(shown).to.deep.equal([
        ['1', 'one', 'x:1'],
        ['2', 'two', ''],
      ])
      for (const { silentMs } of readers) expect(silentMs).to.be.within(0, 5_000)
    })
  })
}

describe('the board of a deployment', () => {
  suite('in memory', async () => {
    const board = new Board(new MemoryKeyValueStore())
    return { open: () => board, end: async () => undefined }
  })

  suite('in LMDB', async () => {
    const dir = new TemporaryDir()
    return {
      open: () =>
        new Board(
          new LmdbKeyValueStore({ dir: join(dir.path, 'board'), name: 'the board', clock: hostClock }),
        ),
      end: async () => dir[Symbol.dispose](),
    }
  })

  suite('in Redis', async () => {
    const redis: RedisServer = await startRedis()
    return {
      open: () =>
        new Board(new RedisKeyValueStore({ url: redis.url, keyPrefix: 'svc:test:', clock: hostClock })),
      end: async () => redis[Symbol.asyncDispose](),
    }
  })
})
