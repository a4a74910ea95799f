import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LmdbDedupeStore } from '@svc/plugin-dedupe/lmdb'
import { dedupeStoreSuite } from './store-suite.js'

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
