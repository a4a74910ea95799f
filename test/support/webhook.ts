// A webhook of the test's own: keeps what it is sent, and responds as the test says.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Delivery {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Webhook extends AsyncDisposable {
  readonly url: string
  readonly deliveries: readonly Delivery[]
  /** Resolves once this many requests have arrived. */
  until(count: number): Promise<void>
}

export async function startWebhook(
  respond: (response: ServerResponse, number: number) => void = (response) => void response.end(),
): Promise<Webhook> {
  const deliveries: Delivery[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (piece: string) => (body += piece))
    request.on('end', () => {
      deliveries.push({ headers: request.headers, body })
      respond(response, deliveries.length)
      server.emit('delivery')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=secret-in-url`,
    deliveries,
    async until(count) {
      while (deliveries.length < count) await once(server, 'delivery')
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
