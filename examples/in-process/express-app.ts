// An Express app with the gateway below /agents and a route of its own.
import type { AddressInfo } from 'node:net'
import express from 'express'
import { mountGateway } from 'svc-sdk/node'

const policyFile = process.argv[2] ?? 'policy.yaml'
const gateway = mountGateway({
  policyFile,
  targets: { calc: process.env['CALC_URL'] ?? 'http://127.0.0.1:9000' },
})

const app = express()
// Before anything that reads bodies.
app.use('/agents', gateway.handler)
app.get('/hello', (_request, response) => void response.send('hello'))

await gateway.ready()
const server = app.listen(Number(process.env['PORT'] ?? 8080), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', async () => {
  await gateway.close()
  server.close()
  server.closeAllConnections()
})
