// A control plane and a store on loopback that keep what they receive and fail as a test requires.

import { createHash } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface CloudRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** Replaces the ordinary response; false keeps that. */
export type Interceptor = (request: CloudRequest, response: ServerResponse) => boolean

export interface Cloud extends AsyncDisposable {
  readonly url: string
  readonly requests: CloudRequest[]
  /** Key → bytes. */
  readonly objects: Map<string, Buffer>
  /** Whether the control plane lists objects. */
  lists: boolean
  /** Objects in one page of the listing. */
  pageObjects: number
  /** Asked before each response. */
  intercept: Interceptor
  /** Requests so far whose path contains `part`. */
  asked(part: string): CloudRequest[]
  /** The file's bytes as its objects hold them; throws if ranges overlap or leave a gap. */
  assembled(folder: string, stem: string): string
  /** The same for a binary file. */
  assembledBytes(folder: string, stem: string): Buffer
  /** Resolves once the condition holds, which is checked after every request. */
  until(condition: () => boolean): Promise<void>
}

export const METADATA = { tenant: 'acme', env: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
export const OWNER = 'tenants/acme/prod/clients/edge/1.0.0'

export async function startCloud(): Promise<Cloud> {
  const requests: CloudRequest[] = []
  const objects = new Map<string, Buffer>()
  let waiting: (() => void)[] = []
  const server = createServer((message, response) => {
    response.once('close', () => {
      for (const check of [...waiting]) check()
    })
    void bodyOf(message).then((body) => {
      const request = {
        method: message.method ?? '',
        path: message.url ?? '',
        headers: message.headers,
        body,
      }
      requests.push(request)
      if (!cloud.intercept(request, response)) respond(cloud, request, response)
    }, ignore)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cloud: Cloud = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    objects,
    lists: true,
    pageObjects: 1_000,
    intercept: () => false,
    asked: (part) => requests.filter(({ path }) => path.includes(part)),
    assembled: (folder, stem) => assemble(objects, `${OWNER}/${folder}/${stem}-`, true).toString(),
    assembledBytes: (folder, stem) => assemble(objects, `${OWNER}/${folder}/${stem}-`, false),
    until: (condition) =>
      new Promise((resolve) => {
        const check = () => {
          if (!condition()) return
          waiting = waiting.filter((one) => one !== check)
          resolve()
        }
        waiting.push(check)
        check()
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return cloud
}

function respond(cloud: Cloud, { path, body, method }: CloudRequest, response: ServerResponse): void {
  const json = (value: object) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(value))
  }
  if (path === '/api/auth/validate-key') json(METADATA)
  else if (path === '/api/svc/objects' && cloud.lists) {
    const { prefix, checksums, after = '' } = JSON.parse(String(body))
    const keys = [...cloud.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort()
    const page = keys.slice(0, cloud.pageObjects)
    json({
      objects: page.map((key) => stored(key, cloud.objects.get(key)!, checksums)),
      ...(page.length < keys.length ? { next: page.at(-1) } : {}),
    })
  } else if (path === '/api/svc/upload-url') {
    const { key } = JSON.parse(String(body))
    json({
      url: `${cloud.url}/store/${key}`,
      headers: { 'If-None-Match': '*', 'x-from-control-plane': 'yes' },
    })
  } else if (method === 'PUT' && path.startsWith('/store/')) {
    const key = path.slice('/store/'.length)
    response.statusCode = cloud.objects.has(key) ? 412 : 200
    if (!cloud.objects.has(key)) cloud.objects.set(key, body)
    response.end()
  } else {
    response.statusCode = 404
    response.end()
  }
}

function stored(key: string, bytes: Buffer, withChecksum: boolean): object {
  const checksumSha256 = createHash('sha256').update(bytes).digest('base64')
  return { key, contentLength: bytes.length, ...(withChecksum ? { checksumSha256 } : {}) }
}

/** Responds with `status` to every request whose path contains `part`, `times` times. */
export function failing(part: string, status: number, times = Number.POSITIVE_INFINITY): Interceptor {
  let left = times
  return ({ path }, response) => {
    if (!path.includes(part) || left-- <= 0) return false
    response.statusCode = status
    response.end(JSON.stringify({ error: 'TEST', message: `made ${status}` }))
    return true
  }
}

function assemble(objects: Map<string, Buffer>, prefix: string, isText: boolean): Buffer {
  const ranges = [...objects]
    .filter(([key]) => key.startsWith(prefix))
    .map(([key, bytes]) => {
      const [, start, end, digest] =
        /^(\d+)-(\d+)-([0-9a-f]{16})\.ndjson$/.exec(key.slice(prefix.length)) ?? []
      return { start: Number(start), end: Number(end), digest, bytes, key }
    })
    .sort((a, b) => a.start - b.start)
  let at = 0
  for (const { start, end, digest, bytes, key } of ranges) {
    if (start !== at) throw new Error(`${key} begins at ${start}, the one before ended at ${at}`)
    if (bytes.length !== end - start) throw new Error(`${key} has ${bytes.length} bytes`)
    if (
      !createHash('sha256')
        .update(bytes)
        .digest('hex')
        .startsWith(digest ?? '-')
    )
      throw new Error(`${key} does not hold the bytes it names`)
    if (isText && bytes.at(-1) !== 0x0a) throw new Error(`${key} does not end at a newline`)
    at = end
  }
  return Buffer.concat(ranges.map(({ bytes }) => bytes))
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

function ignore(): void {
  // A client that aborted has made no request.
}
