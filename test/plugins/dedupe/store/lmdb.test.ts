import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostClock } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { ClaimStore } from '@svc/core/store'
import { expect } from 'chai'
import { open } from 'lmdb'
import { HostClock } from '../../../core/store/key-value/deployments.js'
import { rejectionOf } from '../../../support/rejection.js'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { claimOf, dedupeStoreSuite, spaceNameOf } from './suite.js'

const claimsIn = (dir: string, clock: Pick<HostClock, 'now' | 'monotonic'> = hostClock) =>
  new ClaimStore(new LmdbKeyValueStore({ dir, name: 'the dedupe store', clock }))

dedupeStoreSuite('lmdb', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-dedupe-'))
  const clock = new HostClock()
  const store = claimsIn(dir, clock)
  return {
    store,
    advance: async (ms) => {
      clock.passed += ms
    },
    async close() {
      await store.close()
      rmSync(dir, { recursive: true })
    },
  }
})

describe('claims in lmdb', () => {
  const dir = temporaryDir()

  it('are kept, with marks and responses, when the store is opened again', async () => {
    const before = claimsIn(dir.path)
    const [claimed, sent, completed] = ['claimed', 'sent', 'completed'].map((key) => claimOf({ key }))
    for (const claim of [claimed!, sent!, completed!]) await before.claim(claim)
    await before.markSent(sent!)
    await before.complete(completed!, Buffer.from('x'))
    await before.close()
    const after = claimsIn(dir.path)
    const states = ['claimed', 'sent', 'completed'].map(
      async (key) => (await after.claim(claimOf({ key }))).state,
    )
    expect(await Promise.all(states)).to.deep.equal(['in_flight', 'in_flight', 'completed'])
    await after.close()
  })

  it('are deleted after their time when new ones are added', async () => {
    const clock = new HostClock()
    const store = claimsIn(dir.path, clock)
    for (let i = 0; i < 50; i++) {
      const claim = claimOf({ key: `old${i}` })
      await store.claim(claim)
      if (i % 2 === 0) await store.complete(claim, Buffer.from('x'))
    }
    clock.passed += 1_000_000
    for (let i = 0; i < 50; i++) await store.claim(claimOf({ key: `new${i}` }))
    await store.close()
    const db = open<Buffer>({ path: dir.path, noSubdir: false, encoding: 'binary' })
    const keys = [...db.getKeys()].map(String)
    expect(keys.filter((key) => key.includes('old'))).to.deep.equal([])
    // One entry and one note of its end for each.
    expect(keys.filter((key) => key.includes('new'))).to.have.lengthOf(100)
    await db.close()
  })

  for (const [what, text] of Object.entries({
    nothing: '',
    'no version': '2000000000000 1 ',
    'no time': 'x 1 s:o  f 1',
    'an unknown phase': '2000000000000 1 x:o  f 1',
    'no claim': '2000000000000 1 s:o  f',
  })) {
    it(`reject if the store has ${what}, and other keys are served`, async () => {
      const claim = claimOf({ key: 'spoilt' })
      const db = open<Buffer>({ path: dir.path, noSubdir: false, encoding: 'binary' })
      await db.put(`k ${spaceNameOf('spoilt')} spoilt`, Buffer.from(text))
      await db.close()
      const store = claimsIn(dir.path)
      expect((await rejectionOf(store.claim(claim))).message).to.match(/^a stored \w+.* cannot be read$/)
      expect((await store.claim(claimOf())).state).to.equal('claimed')
      await store.close()
    })
  }
})
