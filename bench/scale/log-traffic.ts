// The log's way to the bucket: a control plane and a store that count what they receive.

import { readdir, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { listen } from '../gateway/listen.js'

export class UploadCounter implements AsyncDisposable {
  bytes = 0
  objects = 0
  /** Rounds of the upload: each has one object of the daily log. */
  rounds = 0
  readonly #server: Server
  #port = 0

  private constructor() {
    this.#server = createServer((message, response) => {
      // A gateway that ends may leave a request half sent.
      this.#respond(message, response).catch(() => response.destroy())
    })
  }

  static async start(): Promise<UploadCounter> {
    const counter = new UploadCounter()
    counter.#port = await listen(counter.#server)
    return counter
  }

  /** The policy's section for it. */
  presign(intervalMs: number): object {
    process.env['SVC_BENCH_KEY'] = 'bench'
    const owner = { tenant: 'acme', environment: 'bench', clientName: 'agent', clientVersion: '1.0.0' }
    const apiBaseUrl = `http://127.0.0.1:${this.#port}`
    const auditKey = `Bearer ${'$'}{env:SVC_BENCH_KEY}`
    return { apiBaseUrl, auditKey, intervalMs, ...owner }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #respond(message: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    let length = 0
    for await (const piece of message) {
      length += (piece as Buffer).length
      if (message.method !== 'PUT') text += piece
    }
    if (message.method === 'PUT') {
      this.objects++
      if (message.url?.includes('/ingest/')) this.rounds++
      this.bytes += length
      response.end()
      return
    }
    // Without a listing, everything is uploaded.
    if (message.url !== '/api/svc/upload-url') return void response.writeHead(404).end()
    const { key } = JSON.parse(text) as { key: string }
    response.end(JSON.stringify({ url: `http://127.0.0.1:${this.#port}/${key}` }))
  }
}

export async function bytesBelow(dir: string): Promise<number> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async (entry) => (await stat(join(entry.parentPath, entry.name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
