// A registry on loopback, as a process of its own: node registry-process.js STORAGE UPLINK. Prints its port. It keeps
// the packages of this workspace itself and fetches all others from the uplink.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { runServer } from 'verdaccio'

const [storage, uplink] = process.argv.slice(2)
const own = { access: '$anonymous', publish: '$anonymous' }
const config = {
  storage,
  self_path: storage,
  uplinks: { npm: { url: uplink, maxage: '1h' } },
  packages: {
    'svc-sdk': own,
    '@svc/*': own,
    '**': { access: '$anonymous', proxy: 'npm' },
  },
  auth: {},
  web: { enable: false },
  log: { type: 'stdout', format: 'json', level: 'fatal' },
}

const server: Server = await runServer(config)
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
})
