import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LmdbDedupeStore } from '@svc/plugin-dedupe/lmdb'
import { expect } from 'chai'
import { open } from 'lmdb'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { claimOf, dedupeStoreSuite } from './suite.js'

dedupeStoreSuite('lmdb', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-dedupe-'))
  let now = 1_000_000
  const store = new LmdbDedupeStore({ dir, now: () => now })
  return {
    store,
    advance: async (ms) => {
      now += ms
    },
    async close() {
      await store.close()
      rmSync(dir, { recursive: true })
    },
  }
})

describe('lmdb dedupe store', () => {
  const dir = temporaryDir()

  const rejection = async (promise: Promise<unknown>): Promise<string> => {
    const [result] = await Promise.allSettled([promise])
    return result?.status === 'rejected' ? (result.reason as Error).message : 'it did not reject'
  }

  it('keeps its files to itself in a directory that others may read', async () => {
    chmodSync(dir.path, 0o755)
    await new LmdbDedupeStore({ dir: dir.path }).close()
    for (const file of ['data.mdb', 'lock.mdb']) {
      expect(statSync(join(dir.path, file)).mode & 0o777, file).to.equal(0o600)
    }
  })

  it('keeps claims, marks and responses when it is opened again', async () => {
    const before = new LmdbDedupeStore({ dir: dir.path })
    const [claimed, sent, completed] = ['claimed', 'sent', 'completed'].map((key) => claimOf({ key }))
    for (const claim of [claimed!, sent!, completed!]) await before.claim(claim)
    await before.markSent(sent!)
    await before.complete(completed!, Buffer.from('x'))
    await before.close()
    const after = new LmdbDedupeStore({ dir: dir.path })
    const states = ['claimed', 'sent', 'completed'].map(
      async (key) => (await after.claim(claimOf({ key }))).state,
    )
    expect(await Promise.all(states)).to.deep.equal(['in_flight', 'in_flight', 'completed'])
    await after.close()
  })

  it('treats leases as lapsed when its clock is set back, and never frees a sent call', async () => {
    let now = 1_000_000_000
    const store = new LmdbDedupeStore({ dir: dir.path, now: () => now })
    const waiting = claimOf({ key: 'waiting' })
    const running = claimOf({ key: 'running' })
    for (const claim of [waiting, running]) await store.claim(claim)
    await store.markSent(running)
    now -= 86_400_000
    expect((await store.claim(claimOf({ key: 'waiting' }))).state).to.equal('claimed')
    expect(await store.markSent(waiting)).to.equal(false)
    expect((await store.claim(claimOf({ key: 'running' }))).state).to.equal('unknown')
    expect(await store.complete(running, Buffer.from('x'))).to.equal(true)
    expect((await store.claim(claimOf({ key: 'running' }))).state).to.equal('completed')
    await store.close()
  })

  it('never frees a sent call within the time to live when its clock is set forward', async () => {
    let now = 1_000_000_000
    const store = new LmdbDedupeStore({ dir: dir.path, now: () => now })
    const running = claimOf()
    await store.claim(running)
    await store.markSent(running)
    now += running.ttlMs
    expect((await store.claim(claimOf())).state).to.equal('unknown')
    await store.close()
  })

  it('deletes expired keys when new keys are added', async () => {
    let now = 1_000_000_000
    const store = new LmdbDedupeStore({ dir: dir.path, now: () => now })
    for (let i = 0; i < 50; i++) {
      const claim = claimOf({ key: `old ${i}` })
      await store.claim(claim)
      if (i % 2 === 0) await store.complete(claim, Buffer.from('x'))
    }
    now += 1_000_000
    for (let i = 0; i < 50; i++) await store.claim(claimOf({ key: `new ${i}` }))
    await store.close()
    const db = open<Buffer>({ path: dir.path, noSubdir: false, encoding: 'binary' })
    const keys = [...db.getKeys()].map((key) => JSON.stringify(key)).filter((key) => key !== '"time"')
    expect(keys.filter((key) => key.includes('old'))).to.deep.equal([])
    // One entry and one note of its end for each.
    expect(keys).to.have.lengthOf(100)
    await db.close()
  })

  for (const [what, bytes] of Object.entries({
    nothing: '',
    'no JSON': 'x\n',
    'no line': '["sent","f","o",1,1,1,false]',
    'an unknown phase': '["done","f","o",1,1,1,false]\n',
    'no time': '["sent","f","o",1,1,null,false]\n',
    'a quota record': '\u0000\u0000\u0000\u0000\u0000\u0000\u0008@',
  })) {
    it(`rejects if it finds ${what}, and serves other keys`, async () => {
      const db = open<Buffer>({ path: dir.path, noSubdir: false, encoding: 'binary' })
      await db.put(['key', 'spoilt'], Buffer.from(bytes))
      await db.close()
      const store = new LmdbDedupeStore({ dir: dir.path })
      const claim = claimOf({ key: 'spoilt' })
      for (const act of ['claim', 'markSent', 'renew', 'release', 'markUnknown'] as const) {
        expect(await rejection(store[act](claim)), act).to.match(
          /^a stored record of \d+ bytes cannot be read$/,
        )
      }
      expect((await store.claim(claimOf())).state).to.equal('claimed')
      await store.close()
    })
  }
})
