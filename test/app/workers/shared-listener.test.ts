import { once } from 'node:events'
import { connect } from 'node:net'
import { expect } from 'chai'
import { SharedListener } from 'svc-sdk/internal/workers/shared-listener'
import type { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'

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
})
