import { expect } from 'chai'
import type { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'
import { until } from '../../support/redis.js'
import { startWorker } from './started-worker.js'

const cause = { by: 'test' }
const discarded = 'the reload was discarded'

describe('a worker that prepares a reload', () => {
  let worker: WorkerProcess

  beforeEach(async () => {
    worker = await startWorker(new URL('./preparing-worker.js', import.meta.url), {
      draining: () => undefined,
    })
  })

  afterEach(async () => {
    worker.kill()
    await worker.ended
  })

  const events = () => worker.calls.call('metrics')
  const starts = (policy: string) => until(async () => (await events()).includes(`${policy} starts`))
  /** Lets the stages of a policy that is prepared start. */
  const letStart = (policy: string) => worker.calls.call('announceRefusal', policy, cause)
  /** Resolves with the error of one that is not prepared. */
  const prepare = (policy: string) =>
    worker.calls.call('prepare', policy, cause).catch(({ message }: Error) => message)

  it('starts the stages of one policy at a time, and none of one that a later reload has replaced', async () => {
    const first = prepare('first')
    await starts('first')
    const second = prepare('second')
    const third = prepare('third')
    await letStart('first')
    expect(await Promise.all([first, second])).to.deep.equal([discarded, discarded])
    await starts('third')
    await letStart('third')
    expect(await third).to.equal(undefined)
    await worker.calls.call('commit', null)
    expect(await events()).to.equal('first starts, first stops, third starts, third is in force')
  })

  it('stops the stages before its gateway closes, and starts those of no other policy', async () => {
    const first = prepare('first')
    await starts('first')
    const second = prepare('second')
    const closing = worker.calls.call('close')
    const third = prepare('third')
    await letStart('first')
    expect(await Promise.all([first, second, third])).to.deep.equal([discarded, discarded, discarded])
    await closing
    expect(await events()).to.equal('first starts, first stops, the gateway closes')
  })
})
