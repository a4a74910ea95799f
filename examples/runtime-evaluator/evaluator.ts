// A runtime on loopback: `POST /evaluate` responds with a decision.
import { timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Decision, type EvaluateRequest, PROTOCOL_VERSION, requestIn } from './protocol.js'
import { decide, type Rule } from './rules.js'

const MAX_BODY_BYTES = 1_048_576

export interface EvaluatorOptions {
  /** 0 picks a free one. */
  readonly port?: number
  readonly rules?: readonly Rule[]
  /** Decides in place of `rules`. */
  readonly decider?: (request: EvaluateRequest) => Decision
  /** The bearer token that gateways must send; without it, none is required. */
  readonly apiKey?: string
}

export interface Evaluator {
  /** The URL for `runtime.enforcement.remote.endpoint` of the policy. */
  readonly url: string
  /** The requests, the oldest first. */
  readonly requests: readonly EvaluateRequest[]
  close(): Promise<void>
}

export async function startEvaluator({
  port = 0,
  rules = [],
  decider = (request) => decide(request, rules),
  apiKey,
}: EvaluatorOptions = {}): Promise<Evaluator> {
  const requests: EvaluateRequest[] = []

  async function serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    if (message.method !== 'POST' || message.url !== '/evaluate')
      return respond(response, 404, { error: 'not found' })
    if (!isKnown(message, apiKey)) return respond(response, 401, { error: 'unknown API key' })
    const text = await bodyOf(message)
    const request = text === undefined ? undefined : requestIn(text)
    if (request === undefined) {
      return respond(response, 400, {
        error: `expected a request in the protocol version ${PROTOCOL_VERSION}`,
      })
    }
    requests.push(request)
    respond(response, 200, { protocolVersion: PROTOCOL_VERSION, decision: decider(request) })
  }

  const http = createServer((message, response) => {
    serve(message, response).catch((error: unknown) => {
      console.error('evaluator:', error)
      response.destroy()
    })
  })
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject)
    http.listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/evaluate`,
    requests,
    async close() {
      const closed = new Promise((resolve) => http.close(resolve))
      http.closeAllConnections()
      await closed
    },
  }
}

function isKnown({ headers }: IncomingMessage, apiKey: string | undefined): boolean {
  if (apiKey === undefined) return true
  const shown = Buffer.from(headers.authorization ?? '')
  const wanted = Buffer.from(`Bearer ${apiKey}`)
  return shown.length === wanted.length && timingSafeEqual(shown, wanted)
}

/** Undefined for a body that is too large. */
async function bodyOf(message: IncomingMessage): Promise<string | undefined> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of message as AsyncIterable<Buffer>) {
    size += piece.byteLength
    if (size > MAX_BODY_BYTES) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
