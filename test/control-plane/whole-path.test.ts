import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bind, tokens } from '@svc/core'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { startGatewayServer } from 'svc-sdk'
import { SvcAppender, type UploadError } from 'svc-sdk/audit'
import { LocalDevSigner } from 'svc-sdk/signer'
import { type Bucket, startBucket } from '../support/bucket.js'
import { addKey, startControlPlane, type TestControlPlane } from '../support/control-plane.js'
import { keepingLogger } from '../support/logger.js'
import { ofSuite } from '../support/parts.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'

const folder = 'tenants/acme/prod/clients/edge/1.0.0'
const day = '2026-11-21'

describe('from the log to the bucket', function () {
  this.timeout(60_000)
  let bucket: Bucket
  let plane: TestControlPlane
  let key: string

  const home = ofSuite(() => new TemporaryDir())
  before(async () => {
    generateKeyFile(join(home.path, 'signing'))
    bucket = await startBucket()
    key = addKey(join(home.path, 'keys.json'))
    plane = await startControlPlane(bucket, join(home.path, 'keys.json'))
  })
  after(async () => {
    await plane?.[Symbol.asyncDispose]()
    await bucket?.[Symbol.asyncDispose]()
  })
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(home.path, 'log-'))
    bucket.error = () => false
    bucket.keys.length = 0
    bucket.statuses.length = 0
  })

  function appenderWith(
    auditKey = `Bearer ${key}`,
    now = `${day}T12:00:00Z`,
  ): { appender: SvcAppender; errors: UploadError[] } {
    const errors: UploadError[] = []
    const appender = new SvcAppender({
      config: {
        dir,
        retentionDays: 30,
        presign: { apiBaseUrl: plane.url, auditKey, intervalMs: 3_600_000, timeoutMs: 60_000 },
      },
      signer: LocalDevSigner.fromKeyRef(`file://${join(home.path, 'signing')}`),
      clock: { now: () => Date.parse(now), monotonic: () => performance.now() },
      onAsyncError: (error) => errors.push(error as UploadError),
    })
    return { appender, errors }
  }

  // Each test has a span of its own, so that no two logs of this suite are the same object.
  let serial = 0
  const append = (appender: SvcAppender) =>
    appender.append({
      ts: `${day}T10:00:00Z`,
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
      span_id: (++serial).toString(16).padStart(16, '0'),
      tenant: 'acme',
      server: 's@1',
      tool: 't@1',
      status: 'ok',
      latency_ms: 1,
      policy: { decision: 'allow', retention: 'standard' },
    })

  /** What the objects put in this test hold, in the order of their ranges, without gap or overlap. */
  async function stored(): Promise<string> {
    const ranges = bucket.keys.filter(isOfLog).map((name) => {
      const [, start, end] = /audit-2026-11-21-(\d+)-(\d+)-/.exec(name) ?? []
      return { name, start: Number(start), end: Number(end) }
    })
    let text = ''
    for (const { name, start, end } of ranges.sort((a, b) => a.start - b.start)) {
      expect(start, name).to.equal(text.length)
      text += await bucket.read(name)
      expect(text.length, name).to.equal(end)
    }
    return text
  }

  const isOfLog = (name: string) => name.includes('/ingest/')
  const local = () => readFileSync(join(dir, `audit-${day}.ndjson`), 'utf8')

  it('every byte arrives once, under the metadata of its key', async () => {
    const { appender, errors } = appenderWith()
    for (let round = 0; round < 3; round++) {
      await append(appender)
      await appender.flush()
    }
    await appender.close()
    expect(errors).to.deep.equal([])
    expect(bucket.keys.every((name) => name.startsWith(`${folder}/`))).to.equal(true)
    expect(await stored()).to.equal(local())
  })

  it('sends only what the bucket does not list after its state was lost', async () => {
    const first = appenderWith()
    for (let round = 0; round < 2; round++) {
      await append(first.appender)
      await first.appender.flush()
    }
    await first.appender.close()
    // Of another log, whose daily file has the same name.
    const key = bucket.keys.find(isOfLog) ?? ''
    await bucket.damage(key.replace(/-0-.*/, `-0-1-${'0'.repeat(16)}.ndjson`), 'x')
    rmSync(join(dir, '.svc-presign-state.json'))
    bucket.statuses.length = 0
    const sent = bucket.keys.length
    const second = appenderWith()
    await second.appender.ready()
    await second.appender.flush()
    expect(bucket.statuses).to.deep.equal([])
    await append(second.appender)
    await second.appender.close()
    expect(second.errors.map(({ code }) => code)).to.deep.equal(['upload_state'])
    expect(second.errors[0]?.message).to.match(/is missing; by its listing the store has \d+ bytes/)
    expect(bucket.keys.slice(sent).filter(isOfLog)).to.have.length(1)
    expect(await stored()).to.equal(local())
  })

  for (const status of [500, 503]) {
    it(`goes on after the bucket has responded with ${status}`, async () => {
      let left = 2
      bucket.error = (_, response) => {
        if (left-- <= 0) return false
        response.writeHead(status).end()
        return true
      }
      const { appender, errors } = appenderWith()
      await append(appender)
      while (!bucket.keys.some(isOfLog)) await appender.flush()
      await appender.close()
      expect(new Set(errors.map(({ code }) => code))).to.deep.equal(new Set(['upload_failed']))
      expect(await stored()).to.equal(local())
    })
  }

  it('keeps a day past its retention until the store has all of it', async () => {
    const key = appenderWith()
    await append(key.appender)
    await key.appender.close()
    const name = bucket.keys.find(isOfLog) ?? ''
    await bucket.damage(name, undefined)
    const retain = async () => {
      const { appender, errors } = appenderWith(undefined, '2027-01-21T00:00:00Z')
      await appender.ready()
      await appender.close()
      return errors.map(({ code }) => code)
    }
    expect(await retain()).to.deep.equal(['upload_file'])
    expect(await bucket.read(name)).to.equal(local())
    expect(await retain()).to.deep.equal([])
  })

  it('a wrong key is reported, at close again, and the log continues', async () => {
    const { appender, errors } = appenderWith('Bearer svck_wrong')
    await append(appender)
    await appender.close()
    expect(errors.map(({ code, message }) => [code, message.slice(0, 46)])).to.deep.equal(
      Array(2).fill(['upload_rejected', '/api/auth/validate-key responded with 401: {"e']),
    )
    expect(errors[0]?.message).to.include('is presign.auditKey right?').and.not.include('svck_')
    expect(local()).to.include('"sig"')
  })

  it('a gateway uploads its records and the redacted payloads of its calls', async () => {
    await using upstream = await startUpstream()
    const gateway = startGatewayServer({
      port: 0,
      tenant: 'acme',
      targets: { files: upstream.url },
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir,
        signer: { keyRef: `file://${join(home.path, 'signing')}` },
        presign: { apiBaseUrl: plane.url, auditKey: `Bearer ${key}` },
        raw_payloads: true,
      },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      configure: (container) => bind(container, tokens.Logger, { useValue: keepingLogger() }),
    })
    const { url } = await gateway.ready()
    const response = await fetch(`${url}/mcp/files/echo@1.0.0`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ path: '/a', password: 'hunter2' }),
    })
    expect(await response.json()).to.deep.equal({ echoed: { path: '/a', password: 'hunter2' } })
    await gateway.close()
    const today = readdirSync(join(dir, 'raw'))[0] ?? ''
    const text = await Promise.all(bucket.keys.map((name) => bucket.read(name)))
    expect(text.join('')).to.not.include('hunter2')
    const raw = text.filter((_, i) => bucket.keys[i]?.startsWith(`${folder}/raw/`)).join('')
    expect(raw).to.equal(readFileSync(join(dir, 'raw', today), 'utf8'))
    const records = raw
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(records.map(({ direction, payload_preview }) => [direction, payload_preview])).to.deep.equal([
      ['input', '{"password":"[redacted]","path":"/a"}'],
      ['output', '{"echoed":{"path":"/a","password":"[redacted]"}}'],
    ])
    expect(bucket.keys.some((name) => name.startsWith(`${folder}/ingest/`))).to.equal(true)
  })
})
