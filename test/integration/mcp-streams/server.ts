// A cheap MCP server, which begins sessions and leaves their GET streams to the test.
import { createServer, type ServerResponse } from 'node:http'
import { listenOnLoopback } from '../../support/loopback.js'

export interface StreamServer extends AsyncDisposable {
  readonly url: string
  /** The connections that are open. */
  sockets(): number
}

const result = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  serverInfo: { name: 'streams', version: '1.0.0' },
}

export async function startStreamServer(
  onStream: (response: ServerResponse, sessionId: string) => void = () => undefined,
): Promise<StreamServer> {
  let sockets = 0
  let sessions = 0
  const server = createServer((message, response) => {
    const { 'mcp-session-id': sessionId } = message.headers
    if (message.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      onStream(response, String(sessionId))
      return
    }
    message.resume().once('end', () => {
      if (sessionId !== undefined) {
        response.writeHead(202).end()
        return
      }
      const headers = { 'content-type': 'application/json', 'mcp-session-id': String(sessions++) }
      response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id: 0, result }))
    })
  })
  server.on('connection', (socket) => {
    sockets++
    socket.once('close', () => sockets--)
  })
  const listening = await listenOnLoopback(server)
  return {
    url: `${listening.url}/mcp`,
    sockets: () => sockets,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}
