// A worker that ends each connection: one of the admin listener with the metrics, one of the other with a word.
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { minimalGateway } from './minimal-gateway.js'

runWorker(async (_settings, link) => {
  link.connections('calls').open((socket) => socket.end('served'))
  link.connections('admin').open((socket) => void link.metrics().then((text) => socket.end(text)))
  return minimalGateway()
})
