import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { expect } from 'chai'
import { SharedListener } from 'svc-sdk/internal/workers/shared-listener'
import { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'
import { until } from '../../support/redis.js'

describe('a port that workers share', () => {
  it('lets connections wait while the worker that was to have them has ended, and gives them to the next', async () => {
    const given: unknown[] = []
    const worker = {
      give: (_name: string, socket: unknown) => given.push(socket),
    } as unknown as WorkerProcess
    const workers: WorkerProcess[] = []
    let arrived: () => void = () => undefined
    const listener = new SharedListener('calls', () => {
      arrived()
      return workers
    })
    await listener.listen({ host: '127.0.0.1', port: 0 })
    const accepted = new Promise<void>((resolve) => (arrived = resolve))
    const client = connect(listener.port, '127.0.0.1')
    await Promise.all([once(client, 'connect'), accepted])
    listener.giveWaiting()
    expect(given).to.have.length(0)
    workers.push(worker)
    listener.giveWaiting()
    listener.giveWaiting()
    expect(given).to.have.length(1)
    client.destroy()
    listener.close()
  })

  it('does not keep the main process busy while its workers have ended, and this is not noticed yet', async () => {
    const worker = new WorkerProcess(new URL('./disconnecting-worker.js', import.meta.url), 0, {
      methodsFor: () => ({}) as never,
      onLiveness: () => undefined,
      onHung: () => undefined,
    })
    try {
      await worker.start({ count: 1, policy: '', options: {}, output: {}, commandsPath: '' })
      await until(async () => !worker.isResponding)
      let hasTurned = false
      const fails = () => new Promise<void>((resolve) => worker.give('calls', new Socket(), resolve))
      await fails()
      setImmediate(() => {
        hasTurned = true
      })
      await fails()
      expect(hasTurned).to.equal(true)
    } finally {
      worker.kill()
      await worker.ended
    }
  })
})
