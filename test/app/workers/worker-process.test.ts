import { expect } from 'chai'
import type { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'
import { startWorker } from './started-worker.js'

describe('a fact that a worker is asked for', () => {
  let worker: WorkerProcess

  beforeEach(async () => {
    worker = await startWorker(new URL('./failing-worker.js', import.meta.url))
  })

  afterEach(async () => {
    worker.kill()
    await worker.ended
  })

  it('is null if it does not respond in time', async () => {
    process.kill(worker.pid ?? 0, 'SIGSTOP')
    expect(worker.isResponding).to.equal(true)
    expect(await worker.ask('fact', 'healthParts', [])).to.equal(null)
  })

  it('rejects with the error of a worker that cannot return it', async () => {
    const failure = await worker.ask('fact', 'unknown' as never, []).catch((error: Error) => error)
    expect(failure).to.be.instanceOf(Error)
  })
})
