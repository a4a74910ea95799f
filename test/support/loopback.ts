// Starts an HTTP server on a free port of the loopback interface, and stops it with its connections.
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'

interface Listening extends AsyncDisposable {
  readonly port: number
  /** The origin, without a path. */
  readonly url: string
}

export async function listenOnLoopback(server: HttpServer | HttpsServer): Promise<Listening> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
