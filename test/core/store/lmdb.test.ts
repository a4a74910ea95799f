import { statSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hostClock } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { expect } from 'chai'
import { temporaryDir } from '../../support/temporary-dir.js'

const SPACE = { name: 'space' }

describe('LmdbKeyValueStore', () => {
  const dir = temporaryDir()

  const open = (at = dir.path) => new LmdbKeyValueStore({ dir: at, name: 'the store', clock: hostClock })
  const put = (store: LmdbKeyValueStore, value: string) =>
    store.commit(SPACE, [{ key: 'a', value, version: '1' }])
  const get = async (store: LmdbKeyValueStore) => (await store.get(SPACE, ['a'])).entries[0]?.value

  it('creates its directory with mode 0700, and files that others cannot read', async () => {
    const inner = join(dir.path, 'a', 'b')
    await open(inner).close()
    const modes = [inner, join(inner, 'data.mdb')].map((path) => statSync(path).mode & 0o777)
    expect(modes).to.deep.equal([0o700, 0o600])
  })

  it('keeps its data when it is opened again', async () => {
    const before = open()
    await put(before, 'kept')
    await before.close()
    const after = open()
    expect(await get(after)).to.equal('kept')
    await after.close()
  })

  it('completes pending operations before it closes, and refuses later ones', async () => {
    const store = open()
    const writing = put(store, 'kept')
    await Promise.all([store.close(), store.close()])
    await writing
    const [later] = await Promise.allSettled([get(store)])
    expect(later).to.have.nested.property('reason.message', 'the store is closed')
  })

  it('says that no notices arrive if its file cannot be watched', async () => {
    const store = open()
    const seen = store.watch(SPACE, () => undefined)
    expect(seen.isLive).to.equal(true)
    unlinkSync(join(dir.path, 'data.mdb'))
    expect(store.watch(SPACE, () => undefined).isLive).to.equal(false)
    await put(store, 'kept')
    expect(await get(store)).to.equal('kept')
    seen.close()
    expect(seen.isLive).to.equal(false)
    await store.close()
  })

  it('names the directory that it cannot open', () => {
    const file = join(dir.path, 'file')
    writeFileSync(file, '')
    expect(() => open(file)).to.throw(`the store in ${file} cannot be opened: `)
  })

  for (const [what, bytes] of Object.entries({
    text: Buffer.from('this is not a database, only text of some length'),
    'a page of another format': Buffer.alloc(16_384, 0x5a),
    'a few bytes': Buffer.from('x'),
  })) {
    it(`refuses a file that is not a database: ${what}`, () => {
      writeFileSync(join(dir.path, 'data.mdb'), bytes)
      expect(() => open()).to.throw(/^the store in .* cannot be opened: data.mdb is not an LMDB database$/)
    })
  }
})
