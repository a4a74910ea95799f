// The baseline: node:http in, undici out, no checks and no record: the minimum cost of a gateway in Node. Without an
// upstream port it responds itself, which measures the server half alone.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Pool } from 'undici'
import { respondToParent } from '../measure/child.js'
import { listen } from './listen.js'

const [upstreamPort] = process.argv.slice(2)
const pool = upstreamPort === undefined ? undefined : new Pool(`http://127.0.0.1:${upstreamPort}`)
const alone = Buffer.alloc(300, 0x20)

const server = createServer({ noDelay: true, keepAliveTimeout: 60_000 }, (request, response) => {
  relay(request, response).catch((error: unknown) => {
    process.stderr.write(`relay: ${error}\n`)
    response.destroy()
  })
})
respondToParent(await listen(server), {})

async function relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await bodyOf(request)
  if (pool === undefined) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': alone.length }).end(alone)
    return
  }
  const upstream = await pool.request({
    method: 'POST',
    path: request.url ?? '/',
    headers: { 'content-type': 'application/json' },
    body,
  })
  const bytes = Buffer.from(await upstream.body.arrayBuffer())
  response.writeHead(upstream.statusCode, {
    'content-type': upstream.headers['content-type'] ?? 'application/json',
    'content-length': bytes.length,
  })
  response.end(bytes)
}

function bodyOf(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] ?? Buffer.of()) : Buffer.concat(chunks)))
    request.on('error', reject)
  })
}
