// A load balancer that sends each request to the next of its servers.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { listenOnLoopback } from './loopback.js'

export interface RoundRobin extends AsyncDisposable {
  readonly url: string
}

export function startRoundRobin(servers: readonly string[]): Promise<RoundRobin> {
  let requests = 0
  const forward = (message: IncomingMessage, response: ServerResponse): void => {
    const { method, url: path, rawHeaders } = message
    const server = servers[requests++ % servers.length]
    if (server === undefined) throw new Error('no servers')
    const headers = headersOf(rawHeaders)
    const sending = request(server, { agent: false, method, path, headers, setHost: false }, (incoming) => {
      response.writeHead(incoming.statusCode ?? 502, headersOf(incoming.rawHeaders))
      response.flushHeaders()
      incoming.pipe(response)
      incoming.once('error', () => response.destroy())
    })
    sending.once('error', () => response.destroy())
    response.once('close', () => sending.destroy())
    message.pipe(sending)
  }
  const balancer = createServer(forward)
  return listenOnLoopback(balancer)
}

/** All but those of the connection itself, which each side has its own of. */
function headersOf(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {}
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i]?.toLowerCase(), raw[i + 1]]
    if (name === 'connection' || name === 'keep-alive') continue
    const known = headers[name]
    headers[name] = known === undefined ? value : [known, value].flat()
  }
  return headers
}
