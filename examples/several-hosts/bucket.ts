// A bucket on loopback, as much of S3 as uploads of logs need: PUT once, GET, HEAD with a checksum, and lists. It checks no
// credentials, so it is for this example alone: `node bucket.js DIRECTORY PORT`.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { dirname, join, relative } from 'node:path'

const [directory = '.', port] = process.argv.slice(2)

createServer((request, response) => {
  respond(request, response).catch((error: NodeJS.ErrnoException) => {
    const status = error.code === 'ENOENT' ? 404 : error.code === 'EEXIST' ? 412 : 500
    if (status === 500) console.error(error)
    response.writeHead(status).end()
  })
}).listen(Number(port), '127.0.0.1', () => console.log('listening'))

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
  const path = decodeURIComponent(pathname)
  if (path.split('/').includes('..')) throw new Error(`not a key: ${path}`)
  const file = join(directory, path)
  if (searchParams.has('list-type')) {
    response.end(list(file, searchParams))
  } else if (request.method === 'PUT') {
    const body = Buffer.concat(await request.toArray())
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, body, { flag: request.headers['if-none-match'] === '*' ? 'wx' : 'w' })
    response.end()
  } else {
    const body = readFileSync(file)
    response.setHeader('content-length', body.length)
    response.setHeader('x-amz-checksum-sha256', createHash('sha256').update(body).digest('base64'))
    response.end(request.method === 'HEAD' ? undefined : body)
  }
}

function list(bucket: string, query: URLSearchParams): string {
  const [prefix, after, most] = [
    query.get('prefix') ?? '',
    query.get('start-after') ?? '',
    Number(query.get('max-keys')),
  ]
  const keys = readdirSync(bucket, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(bucket, join(entry.parentPath, entry.name)))
    .filter((key) => key.startsWith(prefix) && key > after)
    .sort()
  const page = keys.slice(0, most || 1000)
  const contents = page.map((key) => {
    const text = key.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
    return `<Contents><Key>${text}</Key><Size>${statSync(join(bucket, key)).size}</Size></Contents>`
  })
  const isTruncated = page.length < keys.length
  return `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}</ListBucketResult>`
}
