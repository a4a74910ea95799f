import { expect } from 'chai'
import { GatewayWorkers } from 'svc-sdk/internal/workers/gateway-workers'
import { keepingLogger } from '../../support/logger.js'

describe('a policy that workers refuse', () => {
  it('is in the log of the main process if no worker can record it', async () => {
    const log = keepingLogger()
    const workers = new GatewayWorkers({
      module: new URL('./failing-worker.js', import.meta.url),
      settings: { count: 1, policy: 'old', options: {}, output: {} },
      check: async () => undefined,
      readFile: () => 'new',
      clock: { now: () => Date.now(), monotonic: () => performance.now() },
      logger: log,
    })
    await workers.start()
    try {
      const refused = await workers.reloadFile({ by: 'SIGHUP' }).catch((error: Error) => error.message)
      expect(refused).to.equal('this worker fails')
      expect(log.lines.filter(({ level }) => level === 'error')).to.deep.equal([
        {
          level: 'error',
          fields: { reason: 'this worker fails', by: 'SIGHUP', unrecorded: 'this worker fails' },
          message: 'policy not reloaded, and this is not recorded; the old one stays in force',
        },
      ])
    } finally {
      await workers.close()
    }
  })
})
