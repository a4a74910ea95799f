// Free ports of the loopback interface, and HTTP servers on them that stop with their connections.
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'

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

/** A port for a program that cannot choose one itself. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
