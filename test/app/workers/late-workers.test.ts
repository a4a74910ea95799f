import { connect } from 'node:net'
import { expect } from 'chai'
import { Registry } from 'prom-client'
import { GatewayWorkers } from 'svc-sdk/internal/workers/gateway-workers'
import { keepingLogger } from '../../support/logger.js'
import { until } from '../../support/redis.js'

/** More than wait in the main process while no worker serves, also without those that wait in the kernel. */
const CONNECTIONS = 1_600

/** Resolves with what a connection gets, or the code of its error. */
const get = (port: number, connected?: () => void): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', connected).setEncoding('utf8')
    socket.on('data', (piece) => {
      text += piece
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
    socket.once('close', () => resolve(text))
  })

describe('workers that are late', function () {
  this.timeout(60_000)
  const log = keepingLogger()
  const registry = new Registry()
  let workers: GatewayWorkers

  beforeEach(async () => {
    registry.clear()
    log.lines.length = 0
    workers = new GatewayWorkers({
      module: new URL('./connected-worker.js', import.meta.url),
      settings: { count: 2, policy: '', options: {}, output: {} },
      check: async () => undefined,
      readFile: () => '',
      clock: { now: () => Date.now(), monotonic: () => performance.now() },
      logger: log,
    })
    workers.addMetricsTo(registry)
    await workers.start()
  })

  afterEach(async () => {
    signal('SIGCONT', ...pids())
    await workers.close()
  })

  const pids = () =>
    log.lines.flatMap(({ fields, message }) => (message === 'worker started' ? [Number(fields['pid'])] : []))
  const signal = (name: 'SIGSTOP' | 'SIGCONT', ...to: number[]): void => {
    for (const pid of to) process.kill(pid, name)
  }
  /** The number of workers in the metrics that the main process exports. */
  const exported = async () => /^svc_workers (\d+)$/m.exec(await registry.metrics())?.[1]
  const listen = (name: 'calls' | 'admin') => workers.listen(name, { host: '127.0.0.1', port: 0 })

  it('do not count in the metrics of the gateway, at its listener and exported', async () => {
    const port = await listen('admin')
    signal('SIGSTOP', ...pids().slice(1))
    // One of two connections in a row is at the other worker.
    const shown = async () => /^svc_workers (\d+)$/m.exec(await Promise.race([get(port), get(port)]))?.[1]
    await until(async () => (await shown()) === '1')
    expect(await exported()).to.equal('1')
  })

  it('get connections if no worker responds, so that none is dropped', async () => {
    const port = await listen('calls')
    signal('SIGSTOP', ...pids())
    await until(async () => (await exported()) === '0')
    const gets: Promise<string>[] = []
    // One after the other, as many at once do not fit the queue of the kernel.
    for (let i = 0; i < CONNECTIONS; i++)
      await new Promise<void>((connected) => gets.push(get(port, connected)))
    signal('SIGCONT', ...pids())
    expect([...new Set(await Promise.all(gets))]).to.deep.equal(['served'])
  })
})
