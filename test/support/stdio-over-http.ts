// `svc stdio` in this process, for programs that speak HTTP alone: each POST is a line of the client, and its response the line
// with the response.
import { createServer } from 'node:http'
import type { GatewaySettings } from 'svc-sdk'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { Bridge } from 'svc-sdk/internal/stdio/gateway/bridge'
import { LineGateway } from 'svc-sdk/internal/stdio/gateway/serve'
import { recordingTo } from './gateway.js'
import { keepingLogger } from './logger.js'
import { listenOnLoopback } from './loopback.js'

/** `name` is that of the server that the client gets; undefined for all servers as one. */
export async function startStdioOverHttp(
  settings: GatewaySettings,
  name?: string,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const gateway = new LineGateway(
    new GatewayBuilder({
      port: 0,
      tenant: 'acme',
      quotas: { adapter: 'memory' },
      authn: { allowUnauthenticated: true },
      entitlements: 'open',
      ...settings,
      ...recordingTo({ append: async () => undefined }),
    }),
    name,
  )
  await gateway.ready()
  const waiting = new Map<unknown, (line: string) => void>()
  const bridge = new Bridge({
    logger: keepingLogger(),
    send: (exchange, method) => gateway.send(exchange, method),
    write: async (line) => waiting.get(JSON.parse(line).id)?.(line),
  })
  let requests = 0
  const http = createServer(async (message, response) => {
    const pieces: Buffer[] = []
    for await (const piece of message) pieces.push(piece as Buffer)
    const { id, ...sent } = JSON.parse(Buffer.concat(pieces).toString() || '{}')
    if (id === undefined) {
      response.writeHead(405).end()
      return
    }
    // Clients of one program use the same ids.
    const own = ++requests
    const line = await new Promise<string>((resolve) => {
      waiting.set(own, resolve)
      bridge.receive(JSON.stringify({ ...sent, id: own }))
    })
    waiting.delete(own)
    const body = JSON.stringify({ ...JSON.parse(line), id })
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  })
  const listening = await listenOnLoopback(http)
  return {
    url: `${listening.url}/mcp`,
    async [Symbol.asyncDispose]() {
      await listening[Symbol.asyncDispose]()
      await bridge.close()
      await gateway.close()
    },
  }
}
