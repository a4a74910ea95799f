import { expect } from 'chai'
import { propertyRuns } from '../../support/property-runs.js'
import { until } from '../../support/redis.js'
import { inBatches, StreamClient } from './client.js'
import { startMeasuredGateway } from './measured-gateway.js'
import { startStreamServer } from './server.js'

/** The number is 10,000 in `npm run chaos`. */
const sessions = propertyRuns(100)

describe('MCP sessions that are opened and abandoned', function () {
  this.timeout(Math.max(60_000, sessions * 30))

  it(`leave no socket and no handle: ${sessions}`, async () => {
    await using server = await startStreamServer()
    await using gateway = await startMeasuredGateway(server.url)
    using client = new StreamClient(gateway.url)
    await inBatches(sessions, 50, async () => {
      const stream = await client.open(await client.begin())
      stream.destroy()
    })
    client[Symbol.dispose]()
    // The gateway keeps idle connections to the server for some seconds.
    await until(async () => server.sockets() === 0)
    await until(async () => (await gateway.held()).resources['TCPSocketWrap'] === undefined)
    expect((await gateway.held()).resources).to.deep.equal({ TCPServerWrap: 1 })
  })
})
