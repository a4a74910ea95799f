import { expect } from 'chai'
import { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'

const cause = { by: 'SIGHUP' } as const

describe('a worker that prepares a policy for longer than the main process waits', () => {
  let worker: WorkerProcess
  const prepare = (policy: string): Promise<unknown> =>
    worker.calls.call('prepare', policy, cause).catch((error: Error) => error.message)
  const release = (policy: string) => worker.calls.call('announceRefusal', policy, cause)

  beforeEach(async () => {
    worker = new WorkerProcess(new URL('./preparing-worker.js', import.meta.url), 0, {
      methodsFor: () => ({ draining: () => undefined }) as never,
      onLiveness: () => undefined,
      onHung: () => undefined,
    })
    await worker.start({ count: 1, policy: '', options: {}, output: {}, commandsPath: '' })
  })

  afterEach(async () => {
    worker.kill()
    await worker.ended
  })

  it('prepares later ones one after the other, and none for which nobody waits', async () => {
    const preparing = ['a', 'b', 'c'].map(prepare)
    await release('a')
    expect(await preparing[0]).to.equal(undefined)
    expect(await preparing[1]).to.equal('the main process waits no longer for this policy')
    expect(await worker.calls.call('metrics')).to.equal('starts a, stops a, starts c')
    await release('c')
    expect(await preparing[2]).to.equal(undefined)
  })

  it('stops the policy before it ends, and starts no other', async () => {
    const preparing = ['a', 'b'].map(prepare)
    const ending = worker.close()
    await release('a')
    await Promise.all(preparing)
    expect((await ending).code).to.equal(0)
  })
})
