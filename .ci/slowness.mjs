// Prints how long a fixed piece of work takes on two cores now, in percent of what a quiet machine takes, at least 100.
import { createHash } from 'node:crypto'
import { isMainThread, Worker } from 'node:worker_threads'

/** On two quiet cores of a server of 2024. */
const quietMs = 1_100

if (isMainThread) {
  const start = performance.now()
  await Promise.all([1, 2].map(work))
  const percent = (performance.now() - start) / (quietMs / 100)
  process.stdout.write(`${Math.max(100, Math.round(percent))}\n`)
} else {
  const text = JSON.stringify(Array.from({ length: 10_000 }, (_, id) => ({ id, name: `tool ${id}` })))
  for (let round = 0; round < 200; round++)
    createHash('sha256')
      .update(JSON.stringify(JSON.parse(text)))
      .digest()
}

function work() {
  return new Promise((resolve, reject) => {
    new Worker(new URL(import.meta.url)).once('exit', resolve).once('error', reject)
  })
}
