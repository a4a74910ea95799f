import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { type AppenderConfig, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { append } from '../plugins/audit/log/seal/rig.js'
import { fixedClock, signer } from '../plugins/audit/log/writer/records.js'
import { type Bucket, startBucket } from '../support/bucket.js'
import { runCommand } from '../support/command.js'
import {
  addKey,
  type Owner,
  owner,
  startControlPlane,
  type TestControlPlane,
} from '../support/control-plane.js'
import { ofSuite } from '../support/parts.js'
import { TemporaryDir } from '../support/temporary-dir.js'

const prefix = 'logs/'

describe('svc audit fetch', function () {
  this.timeout(60_000)
  let bucket: Bucket
  let plane: TestControlPlane
  let client: Owner
  let keyFile: string
  let auditKey: string

  const home = ofSuite(() => new TemporaryDir())
  before(async () => {
    bucket = await startBucket()
    Object.assign(process.env, bucket.env)
    addKey(join(home.path, 'keys.json'))
    plane = await startControlPlane(bucket, join(home.path, 'keys.json'), '--prefix', prefix)
  })
  after(async () => {
    // Another object in its place would not reach the environment that libraries read.
    for (const name of Object.keys(bucket.env)) delete process.env[name]
    await plane?.[Symbol.asyncDispose]()
    await bucket?.[Symbol.asyncDispose]()
  })

  let dir: string
  let copy: string
  let serial = 0
  // Each test has a client of its own.
  beforeEach(() => {
    dir = mkdtempSync(join(home.path, 'log-'))
    copy = join(home.path, `copy-${++serial}`)
    client = { ...owner, clientName: `edge-${serial}` }
    keyFile = join(home.path, `key-${serial}`)
    auditKey = `Bearer ${addKey(join(home.path, 'keys.json'), client)}`
    writeFileSync(keyFile, addKey(join(home.path, 'keys.json'), client, '--read'))
  })

  function appenderIn(
    path: string,
    clock = fixedClock('2026-10-01T12:00:00Z'),
    config: Partial<AppenderConfig> = {},
  ): SvcAppender {
    const presign = { apiBaseUrl: plane.url, auditKey, intervalMs: 3_600_000, timeoutMs: 60_000 }
    return new SvcAppender({
      config: { dir: path, retentionDays: 10, presign, ...config },
      signer,
      clock,
      limits: { uploadRangeBytes: 1_000 },
    })
  }

  const fetchFrom = (source: string, ...options: string[]) =>
    runCommand(auditCommand, ['fetch', source, copy, ...options])
  const fetchAll = (...options: string[]) => fetchFrom(plane.url, '--key-file', keyFile, ...options)
  const verify = async (path: string) => {
    const { verdict, failures, records, head, removedDays } = await verifyLog(path, { keys: [signer] })
    return { verdict, failures, records, head, removedDays }
  }
  /** The files of the tree, the journal, the checkpoints and the daily logs. */
  const contents = (path: string) =>
    readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/^\.|^public-keys$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
      .sort()
      .map((name) => [name, readFileSync(join(path, name)).toString('base64')])

  it('restores the directory of a log, of which verify says the same', async () => {
    const clock = fixedClock('2026-10-01T12:00:00Z')
    for (let i = 0; i < 2; i++) {
      const appender = appenderIn(dir, clock)
      await append(appender, 5, '2026-10-01')
      clock.ms += 24 * 3_600_000
      await append(appender, 5, '2026-10-02')
      await appender.close()
    }
    const { code, out, err } = await fetchAll()
    expect(code).to.equal(0)
    expect(err).to.not.include('in no object')
    expect(out).to.match(/the newest checkpoint of log\.svc-audit\/[0-9a-f]{16} has \d+ leaves, root /)
    expect(contents(copy)).to.deep.equal(contents(dir))
    expect(await verify(copy)).to.deep.equal(await verify(dir))
    expect((await verify(copy)).verdict).to.equal('intact')
  })

  it('restores the records of a removed day too', async () => {
    const clock = fixedClock('2026-10-01T12:00:00Z')
    const first = appenderIn(dir, clock, { retentionDays: 1 })
    await append(first, 3, '2026-10-01')
    await first.close()
    for (let i = 0; i < 2; i++) {
      clock.ms += 25 * 3_600_000
      const each = appenderIn(dir, clock, { retentionDays: 1 })
      await each.ready()
      await each.close()
    }
    expect((await verify(dir)).removedDays).to.deep.equal(['2026-10-01'])
    expect((await fetchAll()).code).to.equal(0)
    expect(await verify(copy)).to.deep.include({ verdict: 'intact', records: 3, removedDays: [] })
  })

  it('reads a bucket without a control plane', async () => {
    const appender = appenderIn(dir)
    await append(appender, 3, '2026-10-01')
    await appender.close()
    const { tenant, environment, clientName, clientVersion } = client
    const flags = ['--tenant', tenant, '--environment', environment, '--client-name', clientName]
    flags.push('--client-version', clientVersion)
    const { code } = await fetchFrom(`s3://${bucket.name}/${prefix}`, ...flags)
    expect(code).to.equal(0)
    expect(contents(copy)).to.deep.equal(contents(dir))
  })

  it('keeps two logs of one client apart', async () => {
    const other = mkdtempSync(join(home.path, 'log-'))
    for (const path of [dir, other]) {
      const appender = appenderIn(path)
      await append(appender, path === dir ? 4 : 2, '2026-10-01')
      await appender.close()
    }
    const unnamed = await fetchAll()
    const id = JSON.parse(readFileSync(join(dir, 'audit.journal'), 'utf8').split('\n')[0] ?? '').log_id
    expect(unnamed.code).to.equal(2)
    expect(unnamed.err).to.include('there are several logs').and.include(id.slice(0, 16))
    expect((await fetchAll('--log', id)).code).to.equal(0)
    expect(contents(copy)).to.deep.equal(contents(dir))
  })

  it('says which bytes the store has lost or changed, and exits 1', async () => {
    const appender = appenderIn(dir)
    for (let i = 0; i < 3; i++) {
      await append(appender, 3, '2026-10-01')
      await appender.flush()
    }
    await appender.close()
    const objects = bucket.keys.filter(
      (key) => key.includes(`/${client.clientName}/`) && key.includes('/ingest/'),
    )
    await bucket.damage(objects[1] ?? '', undefined)
    await bucket.damage(objects[3] ?? '', 'x')
    const { code, err } = await fetchAll()
    expect(code).to.equal(1)
    const flags = ['--key-file', keyFile, '--json']
    const asJson = await runCommand(auditCommand, ['fetch', plane.url, `${copy}-json`, ...flags])
    expect(asJson.code).to.equal(1)
    expect(err).to.include(JSON.parse(asJson.out).problems.join('\n'))
    expect(err).to.match(/audit-2026-10-01\.ndjson: the bytes from \d+ to \d+ are in no object/)
    expect(err).to.include('does not have the bytes that its key names')
    expect((await verify(copy)).verdict).to.equal('not_intact')
  })

  describe('of a client whose upload key is stolen', () => {
    const nameOf = (bytes: string, start: number) =>
      `${start}-${start + Buffer.byteLength(bytes)}-${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}.ndjson`
    const folder = () => `${prefix}tenants/acme/prod/clients/${client.clientName}/${client.clientVersion}`
    let id: string
    const text = (name: string) => readFileSync(join(dir, name), 'utf8')
    const lines = (name: string) => text(name).split(/(?<=\n)/)
    const put = async (path: string, bytes: string, start: number) => {
      const key = `${folder()}/${path}-${nameOf(bytes, start)}`
      await bucket.damage(key, bytes)
      return key.slice(prefix.length)
    }

    const daily = 'audit-2026-10-01.ndjson'
    const inDaily = (bytes: string, start: number, day = '2026-10-01') =>
      put(`ingest/${day}/audit-2026-10-01`, bytes, start)
    const journal = (bytes: string, start: number, day = '2026-10-01') =>
      put(`journal/${day}/audit-${id}`, bytes, start)
    const strangers = LocalDevSigner.fromSeed(new Uint8Array(32).fill(99))
    const planted = () => {
      const { sig: _, ...record } = JSON.parse(lines(daily)[0]!)
      return `${canonicalize({ ...record, sig: 'ed25519:AAAA' })}\n`
    }

    // What the store gets beside the honest objects. The objects must be named, and the log restored as it is.
    const poisons: Record<string, () => Promise<string[]>> = {
      'records that nobody signed, over the first ones': async () => [await inDaily(planted(), 0)],
      'records that nobody signed, from within an object': async () => [
        await inDaily(planted(), lines(daily)[0]!.length),
      ],
      'records that nobody signed, after the last one': async () => [
        await inDaily(planted(), text(daily).length),
      ],
      'copies of later records, over the first ones': async () => [
        await inDaily(lines(daily).slice(4, 6).join(''), 0),
      ],
      'copies of records, after the last one': async () => [
        await inDaily(lines(daily).slice(0, 2).join(''), text(daily).length),
      ],
      'a copy of a record at 1e15': async () => [await inDaily(lines(daily)[0]!, 1e15)],
      'a copy of a record in the folder of another day': async () => [
        await inDaily(lines(daily)[0]!, 0, '2026-10-02'),
      ],
      'a record of another day': async () => [
        await inDaily(planted().replace('2026-10-01', '2026-10-02'), 0),
      ],
      'half a line': async () => [await inDaily(`${lines(daily)[0]}{"half`, 0)],
      'a journal line that nobody signed': async () => [
        await journal(lines('audit.journal')[1]!.replace(/"sig":"ed25519:..../, '"sig":"ed25519:AAAA'), 0),
      ],
      'copies of later journal lines': async () => [
        await journal(lines('audit.journal').slice(2).join(''), lines('audit.journal')[0]!.length),
      ],
      'a journal in the folder of another day': async () => [
        await journal(`${canonicalize({ journal: 1 })}\n`, 0, '2026-09-01'),
      ],
      'a journal line at 1e15': async () => [await journal(lines('audit.journal')[0]!, 1e15)],
      'a journal of another key': async () => {
        const { sig: _, ...genesis } = JSON.parse(lines('audit.journal')[0]!)
        const key = `ed25519:${Buffer.from(strangers.publicKey).toString('base64')}`
        const own = { ...genesis, key, key_id: strangers.keyId, at: '2026-01-01T00:00:00.000Z' }
        const sig = Buffer.from(strangers.sign(Buffer.from(canonicalize(own)))).toString('base64')
        return [await journal(`${canonicalize({ ...own, sig: `ed25519:${sig}` })}\n`.padEnd(20), 0)]
      },
      'a checkpoint that nobody signed': async () => {
        const note = text('audit-2026-10-01.checkpoint').split(/(?<=\n)(?=\S*svc-audit)/)[0]!
        return [
          await put(
            'checkpoints/2026-10-01/audit-2026-10-01',
            note.replace(/.{20}(?=.{8}\n$)/, 'A'.repeat(20)),
            0,
          ),
        ]
      },
      'a checkpoint at 1e15': async () => [
        await put(
          'checkpoints/2026-10-01/audit-2026-10-01',
          text('audit-2026-10-01.checkpoint').replace(/\n\d+\n/g, '\n99\n'),
          1e15,
        ),
      ],
      'hashes of the tree beyond its end': async () => [
        await put(`tree/2026-10-01/audit-${id}-0-0`, 'x'.repeat(32), 1e15),
      ],
    }

    for (const [title, poison] of Object.entries(poisons)) {
      it(`restores the records of the log, and names the other objects: ${title}`, async () => {
        for (let i = 0; i < 2; i++) {
          const appender = appenderIn(dir)
          await append(appender, 4, '2026-10-01')
          await appender.close()
        }
        id = JSON.parse(lines('audit.journal')[0]!).log_id.slice(0, 16)
        const keys = join(home.path, 'keys.pub')
        writeFileSync(keys, `ed25519:${Buffer.from(signer.publicKey).toString('base64')}\n`)
        const named = await poison()
        const { code, err } = await fetchAll('--keys', keys)
        expect(code, err).to.equal(1)
        for (const key of named) expect(err).to.include(key)
        expect(contents(copy)).to.deep.equal(contents(dir))
        expect((await verify(copy)).verdict).to.equal('intact')
      })
    }

    it('restores the checkpoints that the log has signed from an object that has others too', async () => {
      const appender = new SvcAppender({
        config: { dir, retentionDays: 10 },
        signer,
        clock: fixedClock('2026-10-01T12:00:00Z'),
      })
      await append(appender, 4, '2026-10-01')
      await appender.close()
      const before = contents(dir)
      const path = join(dir, 'audit-2026-10-01.checkpoint')
      const [first = '', last = ''] = readFileSync(path, 'utf8').split(/(?<=\n)(?=\S*svc-audit)/)
      writeFileSync(path, first + last.replace(/\n\d+\n/, '\n99\n') + last)
      const uploading = appenderIn(dir)
      await uploading.ready()
      await uploading.close()
      const { code, err } = await fetchAll()
      expect(code, err).to.equal(1)
      expect(err).to.match(/bytes that are not those of the log: they are left out/)
      expect(contents(copy)).to.deep.equal(before)
      expect((await verify(copy)).verdict).to.equal('intact')
    })

    it('leaves out hashes of the tree that several objects claim, and the log is intact without them', async () => {
      const appender = appenderIn(dir)
      await append(appender, 4, '2026-10-01')
      await appender.close()
      id = JSON.parse(lines('audit.journal')[0]!).log_id.slice(0, 16)
      const key = await put(`tree/2026-10-01/audit-${id}-0-0`, 'x'.repeat(32), 0)
      const { code, err } = await fetchAll()
      expect([code, err.includes(key)]).to.deep.equal([1, true])
      expect((await verify(copy)).verdict).to.equal('intact')
    })
  })

  function wrongKey(): string {
    writeFileSync(keyFile, 'svck_wrong')
    return keyFile
  }
  for (const [title, args, message] of [
    ['no key', () => [plane.url], 'the API key is missing'],
    ['a wrong key', () => [plane.url, '--key-file', wrongKey()], 'responded with 401'],
    ['another source', () => ['ftp://x'], 'neither an http or https URL nor s3://BUCKET'],
    ['a bucket without owner', () => ['s3://audit-logs'], 'needs --tenant'],
  ] as const) {
    it(`refuses ${title} with one line`, async () => {
      const [source = '', ...options] = args()
      const { code, err } = await fetchFrom(source, ...options)
      expect(code).to.equal(2)
      expect(err)
        .to.include(message)
        .and.match(/^svc-sdk audit fetch: [^\n]*\n$/)
    })
  }

  it('refuses the key for uploads, so that a gateway cannot read its own upload', async () => {
    const appender = appenderIn(dir)
    await append(appender, 1, '2026-10-01')
    await appender.close()
    writeFileSync(keyFile, auditKey.slice('Bearer '.length))
    const { code, err } = await fetchAll()
    expect(code).to.equal(2)
    expect(err).to.include('this API key may not download')
  })

  it('refuses a directory that has files', async () => {
    copy = home.path
    expect((await fetchAll()).err).to.include('is not empty')
  })
})
