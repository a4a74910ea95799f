import { expect } from 'chai'
import { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'

describe('a worker', () => {
  it('is ended if its event loop stops', async () => {
    const methods = { metrics: async () => '', reloadOthers: () => undefined }
    const worker = new WorkerProcess(new URL('./blocked-worker.js', import.meta.url), 0, methods, 20)
    const options = { policyYaml: '' }
    const ports = { calls: 0 }
    await worker.start({ count: 1, options, ports, isPreset: false, isWatching: false, output: {} })
    expect(await worker.ended).to.deep.equal({ code: null, signal: 'SIGKILL', isHung: true })
    expect(worker.isServing).to.equal(false)
  })
})
