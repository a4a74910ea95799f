// Plain HTTP around one handler of JSON: limits, the request's body, closing.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Longest body of a request; a valid one has a few hundred bytes, and its key at most 1024. */
const MAX_BODY_BYTES = 16_384
/** A longer body is still read to this length, because a client that is sending may not see its response. */
const MAX_SKIPPED_BYTES = 1_048_576
const CLOSE_MS = 5_000

export interface JsonResponse {
  readonly status: number
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  /** Undefined if it is too long. */
  readonly body: Uint8Array | undefined
}

/** A handler, which must not reject. */
export type JsonHandler = (request: Request) => Promise<JsonResponse>

export interface ListeningServer {
  readonly port: number
  readonly url: string
  /** Waits for the requests in progress, at most five seconds. */
  close(): Promise<void>
}

/** Rejects if the address is taken or not this machine's. */
export async function listen(
  handler: JsonHandler,
  { host, port }: { host: string; port: number },
): Promise<ListeningServer> {
  const server = createServer({
    maxHeaderSize: 16_384,
    headersTimeout: 10_000,
    requestTimeout: 15_000,
    keepAliveTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    // Two joined Authorization headers are not a valid key; node would otherwise drop the second.
    joinDuplicateHeaders: true,
  })
  server.maxConnections = 1_000
  server.on('request', (message, response) => {
    void serve(handler, message, response, () => server.listening)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const bound = (server.address() as AddressInfo).port
  const name = host.includes(':') ? `[${host}]` : host
  return { port: bound, url: `http://${name}:${bound}`, close: () => close(server) }
}

async function serve(
  handler: JsonHandler,
  message: IncomingMessage,
  response: ServerResponse,
  isListening: () => boolean,
): Promise<void> {
  const body = await bodyOf(message)
  const { method = '', url = '' } = message
  const [path = ''] = url.split('?')
  const {
    status,
    body: told,
    headers,
  } = await handler({
    method,
    path,
    authorization: message.headers.authorization,
    body,
  })
  const text = `${JSON.stringify(told)}\n`
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    // The rest of a body that was not read would be parsed as the next request.
    ...(message.complete && isListening() ? {} : { connection: 'close' }),
  })
  response.end(text)
}

/** Resolves when the body is read to its limit or its end; if the connection is lost, with what came. */
function bodyOf(message: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = []
    let size = 0
    const done = (): void => resolve(size > MAX_BODY_BYTES ? undefined : Buffer.concat(pieces))
    message.on('data', (piece: Buffer) => {
      size += piece.byteLength
      if (size <= MAX_BODY_BYTES) pieces.push(piece)
      if (size > MAX_SKIPPED_BYTES) {
        message.pause()
        done()
      }
    })
    message.once('end', done).once('close', done).on('error', done)
  })
}

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS)
  await closed
  clearTimeout(timer)
}
