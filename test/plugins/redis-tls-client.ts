// A process that uses every store at a URL, and prints the results by name: authorities are trusted by process.
import { redisStores } from './redis-stores.js'

const url = process.argv[2] ?? ''
const { signal } = new AbortController()

async function used(name: string): Promise<[string, string]> {
  const store = redisStores[name]?.open('k', { url, connectTimeoutMs: 10_000 })
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
