// A process that uses every store at a URL, or at those of a cluster's nodes, and prints the results by name: authorities are trusted
// by process.
import { redisStores } from './redis-stores.js'

const [, , url = '', ...nodes] = process.argv
const place = nodes.length === 0 ? { url } : { url, nodes, cluster: true }
const { signal } = new AbortController()

async function used(name: string): Promise<[string, string]> {
  const store = redisStores[name]?.open('k', { ...place, connectTimeoutMs: 10_000 })
  try {
    await store?.connect(signal)
    await store?.write()
    return [name, (await store?.has()) ? 'ok' : 'forgotten']
  } catch (error) {
    return [name, String(error)]
  } finally {
    await store?.close()
  }
}

process.stdout.write(
  JSON.stringify(Object.fromEntries(await Promise.all(Object.keys(redisStores).map(used)))),
)
