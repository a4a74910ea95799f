// A token endpoint on loopback that keeps its requests, and responds with a function of the test.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listenOnLoopback } from './loopback.js'

interface Exchange {
  readonly form: URLSearchParams
  readonly headers: IncomingMessage['headers']
}

type HttpResponse = (exchange: Exchange, response: ServerResponse) => void

export interface TestTokenEndpoint extends AsyncDisposable {
  readonly url: string
  readonly exchanges: Exchange[]
  /** Responds in the test's own way from now on. */
  response(response: HttpResponse): void
  /** Responds with 200 with this on top of a proper response from now on; undefined leaves a member out. */
  issue(members?: Record<string, unknown>): void
}

const proper = {
  issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  token_type: 'Bearer',
  expires_in: 300,
}

/** Issues `exchanged-1`, `exchanged-2`, … until `issue` or `response` changes that. */
export async function startTokenEndpoint(): Promise<TestTokenEndpoint> {
  const exchanges: Exchange[] = []
  const issuing =
    (members: Record<string, unknown> = {}): HttpResponse =>
    (_exchange, response) =>
      json(response, 200, { access_token: `exchanged-${exchanges.length}`, ...proper, ...members })
  let respond = issuing()
  const server = createServer((message, response) => {
    let body = ''
    message.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    message.on('end', () => {
      const exchange = { form: new URLSearchParams(body), headers: message.headers }
      exchanges.push(exchange)
      respond(exchange, response)
    })
  })
  const listening = await listenOnLoopback(server)
  return {
    url: `${listening.url}/token`,
    exchanges,
    response: (own) => {
      respond = own
    },
    issue: (members) => {
      respond = issuing(members)
    },
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}

export function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}
