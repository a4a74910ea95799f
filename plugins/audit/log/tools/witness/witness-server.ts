// The HTTP interface of a witness (c2sp.org/tlog-witness).

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { readBounded } from '@svc/core/http'
import { messageOf } from '@svc/core/json'
import { readTrustedLogs, Witness, type WitnessOptions, type WitnessResponse } from './witness.js'

export interface WitnessServerOptions extends WitnessOptions {
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Port to listen on; 0 for a free one. */
  readonly port: number
  /** Called with errors of the disk and of the file of logs, whose requests get 500. */
  readonly onError?: (error: Error) => void
}

export interface RunningWitness {
  /** The address with which logs are configured. */
  readonly url: string
  /** Its verifier key. */
  readonly vkey: string
  /** Completes requests in progress, then releases all resources. */
  close(): Promise<void>
}

// Proofs have at most 63 hashes; a note with 16 signatures has about 3 KB.
const MAX_BODY_BYTES = 65_536
const REQUEST_TIMEOUT_MS = 10_000
const CHECKPOINT_PATH = /^\/([0-9a-f]{64})\/checkpoint$/

/**
 * Runs a witness.
 *
 * @throws {AuditError} `bad_config`; `read_failed` without its file of logs; `lock_failed` while another process uses
 * its directory; system errors if it cannot listen.
 */
export async function startWitness(options: WitnessServerOptions): Promise<RunningWitness> {
  const { host = '127.0.0.1', port, onError = () => undefined } = options
  await readTrustedLogs(options.logs)
  const witness = new Witness(options)
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    respond(witness, request)
      .catch((cause: unknown): WitnessResponse => {
        onError(cause instanceof Error ? cause : new Error(messageOf(cause)))
        return { status: 500, body: 'the witness failed\n' }
      })
      .then((responded) => send(request, response, responded), onError)
  })
  try {
    await listening(server, port, host)
  } catch (error) {
    witness.close()
    throw error
  }
  const address = server.address()
  const actual = typeof address === 'object' && address !== null ? address.port : port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${actual}`,
    vkey: witness.vkey,
    close: () => closed(server, witness),
  }
}

async function respond(witness: Witness, request: IncomingMessage): Promise<WitnessResponse> {
  const { method, url = '' } = request
  const [, hashOfOrigin] = CHECKPOINT_PATH.exec(url) ?? []
  if (hashOfOrigin !== undefined) {
    return method === 'GET' ? witness.checkpoint(hashOfOrigin) : { status: 405, body: 'use GET\n' }
  }
  if (url !== '/add-checkpoint') return { status: 404, body: 'not found\n' }
  if (method !== 'POST') return { status: 405, body: 'use POST\n' }
  const body = await bodyOf(request)
  return typeof body === 'string' ? witness.addCheckpoint(body) : body
}

/** The body, or the response to a request without an acceptable one. */
async function bodyOf(request: IncomingMessage): Promise<string | WitnessResponse> {
  try {
    const { bytes, isCut } = await readBounded(request, MAX_BODY_BYTES)
    return isCut ? { status: 413, body: 'the request is too large\n' } : bytes.toString('utf8')
  } catch (error) {
    // Anyone can begin a request and abort it: that is not an error of the witness, and nobody reads the response.
    if (request.destroyed && !request.complete) return { status: 400, body: 'the request was aborted\n' }
    throw error
  }
}

function send(request: IncomingMessage, response: ServerResponse, responded: WitnessResponse): void {
  const { status, body, contentType = 'text/plain; charset=utf-8' } = responded
  response.writeHead(status, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    ...(request.complete ? {} : { connection: 'close' }),
  })
  response.end(body)
}

function listening(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function closed(server: Server, witness: Witness): Promise<void> {
  return new Promise((resolve, reject) => {
    server.close((error) => {
      witness.close()
      if (error === undefined) resolve()
      else reject(error)
    })
    server.closeIdleConnections()
  })
}
