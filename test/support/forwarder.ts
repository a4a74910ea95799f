// A reverse proxy of one address, for gateways whose public URL must be known before they listen.
import { createServer, request } from 'node:http'
import { listenOnLoopback } from './loopback.js'

export interface Forwarder extends AsyncDisposable {
  readonly url: string
  /** Breaks the connections that are open. */
  drop(): void
}

/** `to` is called for each request. */
export async function startForwarder(to: () => string): Promise<Forwarder> {
  const server = createServer((message, response) => {
    const url = new URL(message.url ?? '/', to())
    const onward = request(url, { method: message.method, headers: message.headers })
    onward.once('response', (incoming) => {
      response.writeHead(incoming.statusCode ?? 502, incoming.headers)
      incoming.pipe(response)
    })
    onward.once('error', () => response.destroy())
    response.once('close', () => onward.destroy())
    message.pipe(onward)
  })
  const listening = await listenOnLoopback(server)
  return { ...listening, drop: () => server.closeAllConnections() }
}
