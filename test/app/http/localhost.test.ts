import { connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'

const hasBoth = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
)
const hosts = hasBoth ? ['127.0.0.1', '::1'] : ['127.0.0.1']
const named = { '127.0.0.1': '127.0.0.1', '::1': '[::1]' } as const

/** Whether something listens there. */
const isTaken = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, host)
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

describe('a gateway on localhost', () => {
  it(`listens on ${hosts.join(' and ')}, until it closes`, async () => {
    const gateway = await startTestGateway({ targets: {}, server: { host: 'localhost' } })
    const port = Number(new URL(gateway.url).port)
    for (const host of hosts) {
      const response = await fetch(`http://${named[host as keyof typeof named]}:${port}/healthz`)
      expect([host, response.status]).to.deep.equal([host, 200])
      await response.text()
    }
    await gateway[Symbol.asyncDispose]()
    for (const host of hosts) expect(await isTaken(host, port), host).to.equal(false)
  })

  it('does not start if another program has its port on one of them', async function () {
    if (!hasBoth) {
      console.log('    skipped: this machine has no ::1')
      return this.skip()
    }
    for (const host of hosts) {
      const other = createServer()
      await new Promise<void>((resolve) => other.listen(0, host, resolve))
      const { port } = other.address() as { port: number }
      const failed = await startTestGateway({ targets: {}, port, server: { host: 'localhost' } }).catch(
        (error: unknown) => error,
      )
      expect(failed, host).to.have.property('message').that.includes('the port is taken')
      for (const one of hosts) expect(await isTaken(one, port), one).to.equal(one === host)
      await new Promise((resolve) => other.close(resolve))
    }
  })
})
