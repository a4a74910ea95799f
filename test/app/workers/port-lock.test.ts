import { createServer } from 'node:net'
import { expect } from 'chai'
import { lockPort, requireSharedPorts } from 'svc-sdk/internal/workers/port-lock'

const host = '127.0.0.1'
const errorOf = (locking: Promise<unknown>) => locking.then(String, (error: Error) => error.message)

describe('the lock of a supervisor on its port', () => {
  it('refuses a second one while no worker listens, and is free when the first has ended', async () => {
    const first = await lockPort({ host, port: 0 })
    const { port } = first
    const says = `another svc gateway --workers has ${host} port ${port}: end it, or choose another port`
    expect(await errorOf(lockPort({ host, port }))).to.equal(says)
    await first[Symbol.asyncDispose]()
    await using next = await lockPort({ host, port })
    expect(next.port).to.equal(port)
  })

  it('refuses a port on which any process listens, on another of its addresses too', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
    const { port } = server.address() as { port: number }
    expect(await errorOf(lockPort({ host, port }))).to.match(/the port is taken/)
    await new Promise((resolve) => server.close(resolve))
  })

  it('needs Linux and a version of Node that can share ports', () => {
    for (const version of ['22.12.0', '22.20.1', '23.1.0', '24.0.0', '26.1.0'])
      expect(() => requireSharedPorts(version, 'linux'), version).to.not.throw()
    for (const version of ['20.19.0', '21.7.3', '22.11.0', '23.0.0'])
      expect(() => requireSharedPorts(version, 'linux'), version).to.throw(/svc-gateway@\.service/)
    expect(() => requireSharedPorts('24.0.0', 'darwin')).to.throw(/behind a load balancer/)
  })
})
