// @svc/control-plane/openapi.yaml against the responses of the running server.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect } from 'chai'
import { parse } from 'yaml'
import { z } from 'zod'
import { type Bucket, startBucket } from '../support/bucket.js'
import { addKey, startControlPlane, type TestControlPlane } from '../support/control-plane.js'
import { ofSuite } from '../support/parts.js'
import { TemporaryDir } from '../support/temporary-dir.js'

type JsonSchema = z.core.JSONSchema.JSONSchema
interface Body {
  readonly content: { readonly 'application/json': { readonly schema: JsonSchema } }
}
interface Operation {
  readonly requestBody?: Body
  readonly responses: Readonly<Record<string, Body>>
}
interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const text = readFileSync(createRequire(import.meta.url).resolve('@svc/control-plane/openapi.yaml'), 'utf8')
const unresolved: unknown = parse(text)
const document = resolved(unresolved) as Document

/** The value with what each `$ref` names in its place. */
function resolved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolved)
  if (typeof value !== 'object' || value === null) return value
  if ('$ref' in value) return resolved(named(String(value.$ref)))
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, resolved(member)]))
}

function named(ref: string): unknown {
  let value = unresolved
  for (const key of ref.split('/').slice(1)) value = (value as Record<string, unknown>)[key]
  if (value === undefined) throw new Error(`${ref} is not in the document`)
  return value
}

function errors(body: Body | undefined, value: unknown): unknown {
  if (body === undefined) return 'not in the document'
  return z.fromJSONSchema(body.content['application/json'].schema).safeParse(value).error?.issues ?? []
}

describe('@svc/control-plane/openapi.yaml', function () {
  this.timeout(60_000)
  let bucket: Bucket
  let key: string
  let readKey: string
  let plane: TestControlPlane
  let planeWithoutCredentials: TestControlPlane

  const home = ofSuite(() => new TemporaryDir())
  before(async () => {
    const keys = join(home.path, 'keys.json')
    bucket = await startBucket()
    key = addKey(keys)
    readKey = addKey(keys, undefined, '--read')
    plane = await startControlPlane(bucket, keys)
    const nothing = {
      AWS_ACCESS_KEY_ID: '',
      AWS_SECRET_ACCESS_KEY: '',
      AWS_SHARED_CREDENTIALS_FILE: home.path,
    }
    planeWithoutCredentials = await startControlPlane(
      { name: bucket.name, env: { ...bucket.env, ...nothing } },
      keys,
    )
  })
  after(async () => {
    await planeWithoutCredentials?.[Symbol.asyncDispose]()
    await plane?.[Symbol.asyncDispose]()
    await bucket?.[Symbol.asyncDispose]()
  })

  const upload: Readonly<Record<string, unknown>> = {
    tenant: 'acme',
    env: 'prod',
    clientName: 'edge',
    clientVersion: '1.0.0',
    key: 'tenants/acme/prod/clients/edge/1.0.0/ingest/2026-11-21/audit-2026-11-21-0-5-0123456789abcdef.ndjson',
    contentType: 'application/x-ndjson',
    contentLength: 5,
    date: '2026-11-21',
    mode: 'audit',
  }

  async function post(path: string, body: unknown, token = key, to = plane) {
    const response = await fetch(to.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    expect(response.headers.get('content-type')).to.equal('application/json')
    return { status: String(response.status), value: (await response.json()) as unknown }
  }

  it('is OpenAPI 3.1', () => {
    expect(document.openapi).to.equal('3.1.0')
  })

  it('describes the responses of /api/auth/validate-key', async () => {
    const path = '/api/auth/validate-key'
    const { responses = {}, requestBody } = document.paths[path]?.['post'] ?? {}
    expect(errors(requestBody, {})).to.deep.equal([])
    const received = [
      await post(path, {}),
      await post(path, 'no JSON'),
      await post(path, {}, 'svck_wrong'),
      await post(path, 'x'.repeat(16_385)),
    ]
    for (const { status, value } of received)
      expect(errors(responses[status], value), status).to.deep.equal([])
    // Nothing outside makes the server respond with 500.
    expect([...received.map(({ status }) => status), '500'].sort()).to.deep.equal(
      Object.keys(responses).sort(),
    )
  })

  it('describes the responses of /api/svc/upload-url', async () => {
    const path = '/api/svc/upload-url'
    const { responses = {} } = document.paths[path]?.['post'] ?? {}
    const received = [
      await post(path, upload),
      await post(path, {}),
      await post(path, upload, 'svck_wrong'),
      await post(path, { ...upload, tenant: 'globex' }),
      await post(path, 'x'.repeat(16_385)),
      await post(path, upload, key, planeWithoutCredentials),
    ]
    for (const { status, value } of received)
      expect(errors(responses[status], value), status).to.deep.equal([])
    expect([...received.map(({ status }) => status), '500'].sort()).to.deep.equal(
      Object.keys(responses).sort(),
    )
  })

  const owner = { tenant: 'acme', env: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
  const folder = 'tenants/acme/prod/clients/edge/1.0.0/'
  for (const [path, request] of [
    ['/api/svc/objects', { ...owner, prefix: folder }],
    ['/api/svc/download-url', { ...owner, key: upload['key'] }],
  ] as const) {
    it(`describes the requests and responses of ${path}`, async () => {
      const { responses = {}, requestBody } = document.paths[path]?.['post'] ?? {}
      expect(errors(requestBody, request)).to.deep.equal([])
      expect(errors(requestBody, { ...request, more: 1 })).to.not.deep.equal([])
      const received = [
        await post(path, request, readKey),
        await post(path, { ...request, more: 1 }, readKey),
        await post(path, request, 'svck_wrong'),
        await post(path, { ...request, tenant: 'globex' }, readKey),
        await post(path, 'x'.repeat(16_385)),
        await post(path, request, readKey, planeWithoutCredentials),
      ]
      for (const { status, value } of received)
        expect(errors(responses[status], value), status).to.deep.equal([])
      expect([...received.map(({ status }) => status), '500'].sort()).to.deep.equal(
        Object.keys(responses).sort(),
      )
    })
  }

  it('describes the requests that /api/svc/upload-url accepts', async () => {
    const path = '/api/svc/upload-url'
    const body = document.paths[path]?.['post']?.requestBody
    expect(errors(body, upload)).to.deep.equal([])
    const wrong: Record<string, unknown>[] = [
      { ...upload, acl: 'public-read' },
      { ...upload, contentType: 'text/html' },
      { ...upload, contentLength: 0 },
      { ...upload, contentLength: 5 * 1024 ** 3 + 1 },
      { ...upload, contentLength: 5.5 },
      { ...upload, date: '21.11.2026' },
      { ...upload, mode: 'other' },
      { ...upload, key: '' },
      { ...upload, checksumSha256: 'abc' },
      { ...upload, key: 'x'.repeat(1025) },
      ...Object.keys(upload).map((name) => ({ ...upload, [name]: undefined })),
    ]
    for (const request of wrong) {
      const sent: unknown = JSON.parse(JSON.stringify(request))
      expect(errors(body, sent), JSON.stringify(request)).to.not.deep.equal([])
      expect((await post(path, sent)).status, JSON.stringify(request)).to.equal('400')
    }
  })

  it('describes the response of /healthz, and no other path', async () => {
    const { responses = {} } = document.paths['/healthz']?.['get'] ?? {}
    const response = await fetch(`${plane.url}/healthz`)
    expect(errors(responses[String(response.status)], await response.json())).to.deep.equal([])
    expect(Object.keys(document.paths)).to.have.members([
      '/api/auth/validate-key',
      '/api/svc/upload-url',
      '/api/svc/objects',
      '/api/svc/download-url',
      '/healthz',
    ])
  })
})
