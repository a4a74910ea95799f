import { startWorker, Thread } from '@svc/core/thread'
import { scanPool } from '@svc/plugin-audit/internal/log/tools/verify/scan-pool'
import { KeyHistory } from '@svc/plugin-audit/internal/log/tree/key-history'
import { expect } from 'chai'
import { rejectionOf } from '../../../../support/rejection.js'
import type { SumsMethods } from './sums-worker.js'

describe('a thread of the audit log', () => {
  const heard: number[] = []
  const ends: string[] = []
  let thread: Thread<SumsMethods>

  beforeEach(() => {
    heard.length = 0
    ends.length = 0
    const worker = startWorker(new URL('./sums-worker.js', import.meta.url), {})
    const methods = { numberOf: (name: number) => name * 10, heard: (sum: number) => heard.push(sum) }
    thread = new Thread(worker, methods, ({ message }) => ends.push(message))
  })
  afterEach(() => thread.close())

  it('makes and serves several calls at a time', async () => {
    const sums = [1, 2, 3].map((n) => thread.call('add', n, 1))
    expect(await Promise.all(sums)).to.deep.equal([20, 30, 40])
    expect(heard).to.have.members([20, 30, 40])
  })

  it('rejects a call with the message and the code of its error, and continues', async () => {
    expect(await rejectionOf<Error & { code?: unknown }>(thread.call('fail', 'EADD'))).to.include({
      message: 'it does not add',
      code: 'EADD',
    })
    expect(await thread.call('add', 1, 2)).to.equal(30)
    expect(ends).to.deep.equal([])
  })

  it('rejects its calls when it ends by itself, and reports that once', async () => {
    const error = await rejectionOf<Error & { code?: unknown }>(thread.call('leave'))
    await thread.close()
    expect([error.message, ...ends]).to.deep.equal(Array(2).fill('it ended by itself, code 3'))
  })
})

describe('the threads that scan a log', () => {
  it('reject the scans that they have not finished if one ends by itself', async () => {
    const leave = `import { isMainThread } from 'node:worker_threads'; if (!isMainThread) process.exit(3)`
    const { execArgv } = process
    // With the first option the others are stated to threads, which else inherit those that the process began with.
    process.execArgv = [
      ...execArgv,
      '--input-type=module',
      '--import',
      `data:text/javascript,${encodeURIComponent(leave)}`,
    ]
    const pool = scanPool({ keys: new KeyHistory(), logId: undefined }, 8_388_608, 2)
    process.execArgv = execArgv
    try {
      const scans = Array.from({ length: 5 }, () => rejectionOf<Error & { code?: unknown }>(pool.scan([])))
      for (const { message } of await Promise.all(scans)) {
        expect(message).to.equal('it ended by itself, code 3')
      }
    } finally {
      await pool.close()
    }
  })
})
