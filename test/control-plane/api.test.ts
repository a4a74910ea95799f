import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { type Bucket, startBucket } from '../support/bucket.js'
import { addKey, owner, startControlPlane, type TestControlPlane } from '../support/control-plane.js'
import { dial, readToEnd, sendRaw } from '../support/raw.js'

const checksumOf = (bytes: string) => createHash('sha256').update(bytes).digest('base64')

describe('svc-control-plane', () => {
  let home: string
  let keys: string
  let bucket: Bucket
  let plane: TestControlPlane
  let key: string
  let readKey: string

  before(async function () {
    this.timeout(60_000)
    home = mkdtempSync(join(tmpdir(), 'svc-control-'))
    keys = join(home, 'keys.json')
    bucket = await startBucket()
    key = addKey(keys)
    readKey = addKey(keys, undefined, '--read')
    plane = await startControlPlane(bucket, keys)
  })
  after(async () => {
    await plane?.[Symbol.asyncDispose]()
    await bucket?.[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  interface Told {
    readonly status: number
    readonly body: Record<string, unknown>
  }

  async function post(path: string, body: unknown, authorization = `Bearer ${key}`): Promise<Told> {
    const response = await fetch(plane.url + path, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }

  const metadata = { tenant: 'acme', env: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
  const folder = 'tenants/acme/prod/clients/edge/1.0.0'
  const upload = (changes: object = {}) => ({
    ...metadata,
    key: `${folder}/ingest/2026-11-21/audit-2026-11-21-0-5-0123456789abcdef.ndjson`,
    contentType: 'application/x-ndjson',
    contentLength: 5,
    date: '2026-11-21',
    mode: 'audit',
    ...changes,
  })

  const named = (file: string, range: string, day = '2026-11-21') =>
    `${folder}/ingest/${day}/${file}-${range}-0123456789abcdef.ndjson`

  it('responds to a refused request after its body and keeps the connection open', async () => {
    const head =
      'POST /api/svc/upload-url HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer svck_wrong\r\n'
    const socket = await dial(plane.url)
    const responded = new Promise((resolve) => socket.once('data', resolve))
    socket.write(`${head}content-length: 500000\r\n\r\n`)
    for (let i = 0; i < 10; i++) await new Promise((resolve) => socket.write('x'.repeat(50_000), resolve))
    expect(String(await responded)).to.match(/^HTTP\/1\.1 401 /)
    socket.write('GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n')
    expect((await readToEnd(socket)).statuses).to.deep.equal([200])
  })

  describe('/api/auth/validate-key', () => {
    it('returns the owner of the key', async () => {
      expect(await post('/api/auth/validate-key', {})).to.deep.equal({ status: 200, body: metadata })
    })

    for (const [title, authorization] of [
      ['a key it does not know', 'Bearer svck_wrong'],
      ['a key without its scheme', 'svck_wrong'],
      ['an OIDC token', 'Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln'],
      ['nothing', ''],
    ] as const) {
      it(`refuses ${title} in the error shape`, async () => {
        const { status, body } = await post('/api/auth/validate-key', {}, authorization)
        expect([status, body['error']]).to.deep.equal([401, 'UNAUTHENTICATED'])
        expect(body).to.have.all.keys('error', 'message', 'trace_id')
      })
    }

    it('accepts a key that was added while it runs', async () => {
      const added = addKey(keys, { ...owner, clientName: 'other' })
      const told = await post('/api/auth/validate-key', {}, `Bearer ${added}`)
      expect(told.body).to.deep.equal({ ...metadata, clientName: 'other' })
    })
  })

  describe('/api/svc/upload-url', () => {
    const put = (url: unknown, body: string, headers: Record<string, string> = {}) =>
      fetch(String(url), {
        method: 'PUT',
        headers: { 'content-type': 'application/x-ndjson', 'if-none-match': '*', ...headers },
        body,
      })

    it('gives a URL under which exactly these bytes can be put, once', async () => {
      const { status, body } = await post('/api/svc/upload-url', upload())
      expect([status, body['headers']]).to.deep.equal([
        200,
        { 'Content-Type': 'application/x-ndjson', 'If-None-Match': '*' },
      ])
      expect((await put(body['url'], '{"":1', { 'content-type': 'text/plain' })).status).to.equal(403)
      expect((await put(body['url'], '{"":1', { 'if-none-match': '"x"' })).status).to.equal(403)
      expect((await put(body['url'], 'longer than that')).status).to.equal(403)
      expect((await put(body['url'], 'one2\n')).status).to.equal(200)
      expect((await put(body['url'], 'two2\n')).status).to.equal(412)
      expect(await bucket.read(upload().key)).to.equal('one2\n')
    })

    it('gives a URL under which only bytes with the stated checksum can be put', async () => {
      const checksumSha256 = checksumOf('four\n')
      const digest = Buffer.from(checksumSha256, 'base64').toString('hex').slice(0, 16)
      const named = (digits: string) => `${folder}/ingest/2026-11-24/audit-2026-11-24-0-5-${digits}.ndjson`
      const date = '2026-11-24'
      const misnamed = upload({ date, key: named('0123456789abcdef'), checksumSha256 })
      expect((await post('/api/svc/upload-url', misnamed)).status).to.equal(400)
      const { body } = await post('/api/svc/upload-url', upload({ date, key: named(digest), checksumSha256 }))
      const headers = { 'x-amz-checksum-sha256': checksumSha256 }
      expect(body['headers']).to.deep.include(headers)
      expect((await put(body['url'], 'four\n')).status).to.equal(403)
      expect((await put(body['url'], 'five\n', headers)).status).to.equal(400)
      expect((await put(body['url'], 'four\n', headers)).status).to.equal(200)
    })

    for (const [title, changes, status] of [
      ["another tenant's metadata", { tenant: 'globex' }, 403],
      ["another client's metadata", { clientVersion: '2' }, 403],
      ["another tenant's folder", { key: upload().key.replace('acme', 'globex') }, 400],
      ["another mode's folder", { mode: 'raw' }, 400],
      ["another day's folder", { date: '2026-11-22' }, 400],
      ['a key that climbs', { key: upload().key.replace('/ingest/', '/../') }, 400],
      ['an agent that climbs', { mode: 'agent', key: upload().key.replace('/ingest/', '/agents/../') }, 400],
      ['a key of other bytes', { contentLength: 6 }, 400],
      ['a key without range', { key: `${folder}/ingest/2026-11-21/audit.ndjson` }, 400],
      ['another type', { contentType: 'text/html' }, 400],
      ['no bytes', { contentLength: 0 }, 400],
      ['an unknown member', { acl: 'public-read' }, 400],
      [
        'a day that is not in the calendar',
        { date: '2026-02-30', key: named('audit-2026-02-30', '0-5', '2026-02-30') },
        400,
      ],
      ['the file of another day', { key: named('audit-2026-11-20', '0-5') }, 400],
      ["another mode's file", { key: named('raw-2026-11-21', '0-5') }, 400],
      [
        'a journal without the id of its log',
        { mode: 'journal', key: named('audit', '0-5').replace('ingest', 'journal') },
        400,
      ],
      ['a range that no object ends at', { key: named('audit-2026-11-21', '7-12') }, 400],
      ['a range at 1e15', { key: named('audit-2026-11-21', '1000000000000000-1000000000000005') }, 400],
      [
        'a range beyond a safe number',
        { key: named('audit-2026-11-21', '9999999999999990-9999999999999995') },
        400,
      ],
      ['a range with leading zeroes', { key: named('audit-2026-11-21', '00-05') }, 400],
    ] as const) {
      it(`refuses ${title}`, async () => {
        const told = await post('/api/svc/upload-url', upload(changes))
        const error = status === 403 ? 'FORBIDDEN' : 'BAD_REQUEST'
        expect([told.status, told.body['error']]).to.deep.equal([status, error])
      })
    }

    it('lets ranges continue what the store has, near or far, and begin again at 0', async () => {
      const day = '2026-11-25'
      const key = (range: string) => named(`audit-${day}`, range, day)
      const ends = [0, 700, 1_500, 9_999, 10_000, 123_456, 98_765_432]
      for (const [i, start] of ends.slice(0, -1).entries())
        await bucket.damage(key(`${start}-${ends[i + 1]}`), 'x')
      const status = async (range: string) => {
        const [start = 0, end = 0] = range.split('-').map(Number)
        const asked = upload({ key: key(range), date: day, contentLength: end - start })
        return (await post('/api/svc/upload-url', asked)).status
      }
      for (const start of ends)
        expect([start, await status(`${start}-${start + 5}`)]).to.deep.equal([start, 200])
      for (const start of [1, 701, 10_001, 98_765_431])
        expect(await status(`${start}-${start + 5}`)).to.equal(400)
    })

    it('refuses the beginning of a journal in the folder of another day than the one it has', async () => {
      const journal = (day: string, id = '0011223344556677') =>
        `${folder}/journal/${day}/audit-${id}-0-5-0123456789abcdef.ndjson`
      await bucket.damage(journal('2026-10-01', 'ffff223344556677'), 'x')
      await bucket.damage(journal('2026-10-02'), 'x')
      for (const [day, status] of [
        ['2026-10-01', 400],
        ['2026-10-02', 200],
        ['2026-10-03', 400],
      ] as const) {
        const asked = upload({ mode: 'journal', date: day, key: journal(day) })
        expect((await post('/api/svc/upload-url', asked)).status, day).to.equal(status)
      }
    })

    it('refuses a body that is not JSON or is too long', async () => {
      expect((await post('/api/svc/upload-url', '{"a":1,"a":2}')).status).to.equal(400)
      expect((await post('/api/svc/upload-url', upload({ pad: 'x'.repeat(20_000) }))).status).to.equal(413)
    })

    it('refuses an unknown key before it judges the body', async () => {
      expect((await post('/api/svc/upload-url', 'no JSON', 'Bearer svck_wrong')).status).to.equal(401)
    })
  })

  it('refuses other paths and methods in the error shape, and responses /healthz', async () => {
    expect((await post('/api/else', {})).body['error']).to.equal('NOT_FOUND')
    const got = await fetch(`${plane.url}/api/auth/validate-key`)
    expect([got.status, got.headers.get('allow')]).to.deep.equal([405, 'POST'])
    expect((await fetch(`${plane.url}/healthz`)).status).to.equal(200)
  })

  it('refuses two Authorization headers, whichever of them is valid', async () => {
    const head =
      'POST /api/auth/validate-key HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: 2\r\n'
    const header = (token: string) => `authorization: Bearer ${token}\r\n`
    const { statuses } = await sendRaw(plane.url, `${head}${header(key)}${header('svck_wrong')}\r\n{}`)
    expect(statuses).to.deep.equal([401])
  })

  it('closes the connection if it does not read a body to the end', async () => {
    const head = 'POST /api/svc/upload-url HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n'
    const piece = `100000\r\n${'x'.repeat(0x100000)}\r\n`
    const { statuses } = await sendRaw(plane.url, `${head}${piece}1\r\nx\r\n`)
    // An open connection would be refused with 408 when the request times out.
    expect(statuses).to.deep.equal([401])
  })

  it('logs that it refused a key, and no key', async () => {
    await post('/api/auth/validate-key', {}, 'Bearer svck_wrong')
    while (!plane.log.some(({ msg }) => msg === 'refused a key')) await plane.logged()
    expect(JSON.stringify(plane.log)).to.not.include('svck_')
  })

  describe('/api/svc/objects and /api/svc/download-url', () => {
    before(async () => {
      for (const [start, bytes] of ['a\n', 'b\n', 'c\n'].entries()) {
        const name = `audit-2026-11-22-${2 * start}-${2 * start + 2}-0123456789abcdef.ndjson`
        const key = `${folder}/ingest/2026-11-22/${name}`
        const asked = upload({ key, date: '2026-11-22', contentLength: 2 })
        const { body } = await post('/api/svc/upload-url', asked)
        const headers = { 'content-type': 'application/x-ndjson', 'if-none-match': '*' }
        await fetch(String(body['url']), { method: 'PUT', headers, body: bytes })
      }
    })
    const prefix = `${folder}/ingest/2026-11-22/`
    const list = async (changes: object = {}) => {
      const { body } = await post('/api/svc/objects', { ...metadata, prefix, ...changes })
      return body['objects'] as { key: string; contentLength: number; checksumSha256?: string }[]
    }

    it('gives no upload URL to a key that reads', async () => {
      const { status } = await post('/api/svc/upload-url', upload(), `Bearer ${readKey}`)
      expect(status).to.equal(403)
    })

    it('lists the objects of a prefix, after a key, and with their checksums', async () => {
      const objects = await list()
      expect(objects.map(({ contentLength }) => contentLength)).to.deep.equal([2, 2, 2])
      expect(await list({ after: objects[0]?.key })).to.deep.equal(objects.slice(1))
      const listed = (await list({ checksums: true })).map(({ checksumSha256 }) => checksumSha256)
      expect(listed).to.deep.equal(['a\n', 'b\n', 'c\n'].map(checksumOf))
    })

    it('lists more objects than a page has', async () => {
      const many = `${folder}/ingest/2026-11-23/`
      for (let i = 0; i < 51; i++) await bucket.damage(`${many}audit-${String(i).padStart(2, '0')}`, 'x')
      const page = (changes: object) =>
        post('/api/svc/objects', { ...metadata, prefix: many, checksums: true, ...changes })
      const { body: first } = await page({})
      expect(first['objects']).to.have.length(50)
      expect(first['next']).to.equal(`${many}audit-49`)
      const { body: last } = await page({ after: first['next'] })
      expect(last['objects']).to.have.length(1)
      expect(last).to.not.have.property('next')
    })

    it('gives a URL to get one object', async () => {
      const [, second] = await list()
      const asked = { ...metadata, key: second?.key }
      expect((await post('/api/svc/download-url', asked)).status).to.equal(403)
      const { body } = await post('/api/svc/download-url', asked, `Bearer ${readKey}`)
      expect(await (await fetch(String(body['url']))).text()).to.equal('b\n')
    })

    for (const [title, path, changes, status] of [
      ["another tenant's metadata", 'objects', { tenant: 'globex' }, 403],
      ["another tenant's prefix", 'objects', { prefix: 'tenants/globex/' }, 400],
      ['a prefix above its own', 'objects', { prefix: 'tenants/' }, 400],
      ['a prefix of a similar name', 'objects', { prefix: folder.slice(0, -1) }, 400],
      ["another tenant's metadata", 'download-url', { tenant: 'globex' }, 403],
      ['a key that climbs', 'download-url', { key: `${folder}/../other/x` }, 400],
    ] as const) {
      it(`refuses ${title} on /api/svc/${path}`, async () => {
        const asked = path === 'objects' ? { prefix } : { key: `${prefix}x` }
        const request = { ...metadata, ...asked, ...changes }
        const response = await post(`/api/svc/${path}`, request, `Bearer ${readKey}`)
        expect(response.status).to.equal(status)
      })
    }
  })

  describe('the key file', () => {
    const refusalToStart = (file: string) =>
      startControlPlane(bucket, file).then(
        () => 'started',
        (error: Error) => error.message,
      )

    it('holds hashes, never a key, readable by its owner only', () => {
      const text = readFileSync(keys, 'utf8')
      expect(text).to.not.include(key).and.not.include('svck_')
      expect(JSON.parse(text).keys[0]).to.deep.include(metadata)
      expect(statSync(keys).mode & 0o777).to.equal(0o600)
    })

    it('is refused at start when it is missing, with the command that creates one', async () => {
      expect(await refusalToStart(join(home, 'nosuch.json'))).to.match(
        /cannot be read; `npx @svc\/control-plane add-key` creates one: .*nosuch\.json/,
      )
    })

    it('is refused at start when it is invalid, with the reason', async () => {
      const bad = join(home, 'bad.json')
      writeFileSync(bad, '{"version":1,"keys":[{"sha256":"x"}]}')
      expect(await refusalToStart(bad)).to.include(`${bad}: not a key file: keys.0.sha256: expected 64`)
    })
  })
})
