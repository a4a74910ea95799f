// A process that counts in a directory it shares with others, as its parent asks.
import { open } from 'lmdb'
import { lmdbAdapter } from './adapters.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const dir = process.argv[2] ?? ''
const adapter = lmdbAdapter(dir)

process.on('message', async (asked: { calls?: number; limit?: number; stick?: true; fill?: true }) => {
  if (asked.stick) stick()
  else if (asked.fill) process.send?.(await fill())
  else process.send?.(await count(asked.calls ?? 0, asked.limit ?? 0))
})
process.on('disconnect', () => process.exit())
process.send?.('ready')

async function count(calls: number, limit: number): Promise<{ counted: number; tokens: number }> {
  const counts = Array.from({ length: calls }, () => adapter.incrDaily('t', 'a', limit, NOON))
  const takes = Array.from({ length: calls }, () => adapter.takeToken('t', 'a', 1, limit, NOON))
  const counted = (await Promise.all(counts)).filter(({ count }) => count <= limit).length
  const tokens = (await Promise.all(takes)).filter((response) => response.tokens >= 0).length
  return { counted, tokens }
}

/** Holds the write lock until it is killed. */
function stick(): void {
  const db = open({ path: dir, noSubdir: false, encoding: 'binary' })
  db.transaction(() => {
    db.put('half', Buffer.alloc(8))
    process.send?.('stuck')
    for (;;);
  })
}

/** Counts for new tenants until the disk takes no more. */
async function fill(): Promise<{ error: string; counted: number }> {
  for (let i = 0; ; i++) {
    try {
      await adapter.incrDaily(`tenant ${i}`, 'a', 5, NOON)
    } catch (error) {
      const { count } = await adapter.incrDaily('t', 'a', 1, NOON)
      return { error: (error as Error).message, counted: count }
    }
  }
}
