// A plain tool server on loopback: keeps its requests, and responds with a function of the test.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listenOnLoopback } from './loopback.js'

export interface UpstreamCall {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface TestUpstream extends AsyncDisposable {
  readonly url: string
  readonly calls: UpstreamCall[]
}

type HttpResponse = (call: UpstreamCall, response: ServerResponse) => void

const echo: HttpResponse = (call, response) => {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ echoed: JSON.parse(call.body || 'null') }))
}

export async function startUpstream(respond: HttpResponse = echo): Promise<TestUpstream> {
  const calls: UpstreamCall[] = []
  const server = createServer((message, response) => {
    const pieces: Buffer[] = []
    message.on('data', (piece: Buffer) => pieces.push(piece))
    message.on('end', () => {
      const call = {
        method: message.method ?? '',
        path: message.url ?? '',
        headers: message.headers,
        body: Buffer.concat(pieces).toString(),
      }
      calls.push(call)
      respond(call, response)
    })
  })
  const listening = await listenOnLoopback(server)
  return {
    url: listening.url,
    calls,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}
