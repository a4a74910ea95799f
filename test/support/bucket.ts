// An S3 bucket on loopback: s3rver, behind a front that does what S3 does and s3rver does not, namely to check
// the signature of a presigned URL (AWS Signature Version 4), to honour If-None-Match, and to keep checksums.
import { createHash, createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'

const NAME = 'audit-logs'
const accessKey = 'test-access-key'
const secretKey = 'test-secret-key'

export interface Bucket extends AsyncDisposable {
  readonly name: string
  /** What a client of the bucket finds in its environment. */
  readonly env: Readonly<Record<string, string>>
  /** Keys that were put, in order. */
  readonly keys: string[]
  /** Statuses of all PUTs, in order. */
  readonly statuses: number[]
  /** Whether the credentials may list objects. */
  mayList: boolean
  /** Called before each PUT; true if it has responded. */
  error: (key: string, response: ServerResponse) => boolean
  read(key: string): Promise<string>
  /** Changes or removes an object, as a store that loses data. */
  damage(key: string, bytes: string | undefined): Promise<void>
}

export async function startBucket(): Promise<Bucket> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-s3-'))
  const address = '127.0.0.1'
  const store = new S3rver({ address, port: 0, silent: true, directory, configureBuckets: [{ name: NAME }] })
  const behind = `http://${address}:${(await store.run()).port}`
  const checksums = new Map<string, string>()
  let turn: Promise<unknown> = Promise.resolve()
  const front = createServer((message, response) => {
    const serve = () =>
      message.method === 'PUT'
        ? put(message, response, bucket, { behind, checksums })
        : read(message, response, bucket, { behind, checksums })
    // PUTs run one at a time, so that none comes between the HEAD and the PUT of another.
    turn = turn.then(serve).catch((error: unknown) => response.destroy(error as Error))
  })
  await new Promise<void>((resolve) => front.listen(0, address, resolve))
  const bucket: Bucket = {
    name: NAME,
    env: {
      AWS_ENDPOINT_URL_S3: `http://${address}:${(front.address() as AddressInfo).port}`,
      AWS_REGION: 'eu-central-1',
      AWS_ACCESS_KEY_ID: accessKey,
      AWS_SECRET_ACCESS_KEY: secretKey,
    },
    keys: [],
    statuses: [],
    mayList: true,
    error: () => false,
    async read(key) {
      const response = await fetch(`${behind}/${NAME}/${key.split('/').map(encodeURIComponent).join('/')}`)
      if (!response.ok) throw new Error(`${key}: ${response.status}`)
      return response.text()
    },
    async damage(key, bytes) {
      const target = `${behind}/${NAME}/${key}`
      const response = await (bytes === undefined
        ? fetch(target, { method: 'DELETE' })
        : fetch(target, { method: 'PUT', body: bytes }))
      if (!response.ok) throw new Error(`${key}: ${response.status}`)
      checksums.set(
        key,
        createHash('sha256')
          .update(bytes ?? '')
          .digest('base64'),
      )
    },
    async [Symbol.asyncDispose]() {
      front.closeAllConnections()
      await new Promise((resolve) => front.close(resolve))
      await store.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
  return bucket
}

interface Behind {
  readonly behind: string
  /** SHA-256 of each object, base64. */
  readonly checksums: Map<string, string>
}

/** A listing or a HEAD by the control plane, whose signature is not checked, or a GET with a presigned URL. */
async function read(
  message: IncomingMessage,
  response: ServerResponse,
  bucket: Bucket,
  { behind, checksums }: Behind,
): Promise<void> {
  const url = new URL(message.url ?? '/', behind)
  if (url.searchParams.has('list-type') && !bucket.mayList) {
    response.writeHead(403).end('<Error><Code>AccessDenied</Code></Error>')
    return
  }
  const isPresigned = url.searchParams.has('X-Amz-Signature')
  if (isPresigned ? !isSigned(message) : message.headers.authorization === undefined) {
    response.writeHead(403).end()
    return
  }
  for (const name of [...url.searchParams.keys()]) if (/^x-/i.test(name)) url.searchParams.delete(name)
  // s3rver's second version of the listing cannot end a page without a cipher that OpenSSL no longer has; the first one can.
  if (url.searchParams.has('list-type')) {
    url.searchParams.delete('list-type')
    url.searchParams.set('marker', url.searchParams.get('start-after') ?? '')
    url.searchParams.delete('start-after')
  }
  const stored = await fetch(url, { method: message.method ?? 'GET' })
  const key = decodeURIComponent(url.pathname).slice(`/${NAME}/`.length)
  const checksum = checksums.get(key)
  response.writeHead(stored.status, {
    'content-type': stored.headers.get('content-type') ?? '',
    'content-length': stored.headers.get('content-length') ?? '0',
    ...(checksum === undefined ? {} : { 'x-amz-checksum-sha256': checksum }),
  })
  response.end(Buffer.from(await stored.arrayBuffer()))
}

async function put(
  message: IncomingMessage,
  response: ServerResponse,
  bucket: Bucket,
  { behind, checksums }: Behind,
): Promise<void> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  const url = new URL(message.url ?? '/', behind)
  const key = decodeURIComponent(url.pathname).slice(`/${NAME}/`.length)
  if (bucket.error(key, response)) return
  const end = (status: number) => {
    bucket.statuses.push(status)
    response.writeHead(status).end()
  }
  if (!isSigned(message)) return end(403)
  const checksum = createHash('sha256').update(Buffer.concat(pieces)).digest('base64')
  if ((message.headers['x-amz-checksum-sha256'] ?? checksum) !== checksum) return end(400)
  const target = `${behind}${url.pathname}`
  const isThere = (await fetch(target, { method: 'HEAD' })).ok
  if (isThere && message.headers['if-none-match'] === '*') return end(412)
  const { status } = await fetch(target, {
    method: 'PUT',
    headers: { 'content-type': message.headers['content-type'] ?? '' },
    body: Buffer.concat(pieces),
  })
  if (status === 200) {
    bucket.keys.push(key)
    checksums.set(key, checksum)
  }
  end(status)
}

/** "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)" of the S3 API reference. */
function isSigned({ method, url = '', headers }: IncomingMessage): boolean {
  const [path = '', query = ''] = url.split('?')
  const parameters = new Map(query.split('&').map((pair) => pair.split('=') as [string, string]))
  const given = (name: string) => decodeURIComponent(parameters.get(name) ?? '')
  const signature = given('X-Amz-Signature')
  parameters.delete('X-Amz-Signature')
  const signedHeaders = given('X-Amz-SignedHeaders')
  const canonical = [
    method,
    path,
    [...parameters]
      .map((pair) => pair.join('='))
      .sort()
      .join('&'),
    ...signedHeaders.split(';').map((name) => `${name}:${String(headers[name] ?? '').trim()}`),
    '',
    signedHeaders,
    'UNSIGNED-PAYLOAD',
  ].join('\n')
  const [owner, ...scope] = given('X-Amz-Credential').split('/')
  const text = [
    'AWS4-HMAC-SHA256',
    given('X-Amz-Date'),
    scope.join('/'),
    createHash('sha256').update(canonical).digest('hex'),
  ].join('\n')
  const mac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest()
  const signingKey = scope.reduce<string | Buffer>((key, part) => mac(key, part), `AWS4${secretKey}`)
  return owner === accessKey && mac(signingKey, text).toString('hex') === signature
}
