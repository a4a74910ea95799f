import { createHash } from 'node:crypto'
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ofEachTest } from '../../../../support/parts.js'
import { RecordingMeter } from '../../../../support/stage-rig.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, memoryLogger } from '../writer/records.js'
import { METADATA, OWNER, startCloud } from './cloud.js'
import { stateOf, textOf, uploading, uploadingSoon } from './rig.js'

const daily = `audit-${DAY}.ndjson`
const raw = {
  ts: `${DAY}T10:00:00Z`,
  trace_id: 'aa',
  span_id: 'bb',
  runId: 'r',
  tenant: 'acme',
  direction: 'input',
  payload_preview: '{}',
  payload_truncated: false,
  payload_bytes: 2,
}

describe('upload', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  it('uploads exactly the bytes of the log under a key with their hash', async () => {
    const { appender } = await uploadingSoon(dir.path, cloud)
    await appender.append(envelope())
    await appender.append(envelope())
    await appender.flush()
    const text = textOf(dir.path, daily)
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(text)
    expect([...cloud.objects.keys()][0]).to.match(
      new RegExp(`^${OWNER}/ingest/${DAY}/audit-${DAY}-0-${text.length}-[0-9a-f]{16}\\.ndjson$`),
    )
    await appender.close()
  })

  it('requests the URL as the contract says, and sends the returned headers', async () => {
    const { appender } = await uploadingSoon(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    const [asked] = cloud.asked('/api/svc/upload-url')
    const [put] = cloud.asked('/store/')
    expect(asked?.headers).to.include({ authorization: 'Bearer key-1', 'content-type': 'application/json' })
    expect(JSON.parse(String(asked?.body))).to.deep.equal({
      key: put?.path.slice('/store/'.length),
      ...METADATA,
      contentType: 'application/x-ndjson',
      contentLength: textOf(dir.path, daily).length,
      checksumSha256: createHash('sha256').update(textOf(dir.path, daily)).digest('base64'),
      date: DAY,
      mode: 'audit',
    })
    expect(put?.headers).to.include({
      'content-type': 'application/x-ndjson',
      'if-none-match': '*',
      'x-from-control-plane': 'yes',
      'content-length': String(textOf(dir.path, daily).length),
    })
    expect(put?.headers).to.not.have.any.keys('authorization', 'transfer-encoding')
  })

  it('sends only new bytes, even after a restart', async () => {
    const first = await uploadingSoon(dir.path, cloud)
    await first.appender.append(envelope())
    await first.appender.flush()
    await first.appender.append(envelope())
    await first.appender.close()
    const second = await uploadingSoon(dir.path, cloud)
    await second.appender.append(envelope())
    await second.appender.close()
    expect(cloud.objects.size).to.equal(3)
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
    const { version, files } = stateOf(dir.path)
    expect({ version, files }).to.deep.equal({
      version: 1,
      files: { [daily]: { offset: textOf(dir.path, daily).length, updatedAt: '2026-11-21T12:00:00.000Z' } },
    })
  })

  it('uploads all datasets, each in its folder and mode, the logs before the files that refer to them', async () => {
    const { appender } = uploading(dir.path, cloud, {}, { sealed: true })
    await appender.append(envelope({ nodeId: 'node/1', agentRef: 'run 7' }))
    await appender.appendRawPayload(raw)
    await appender.close()
    const modes = cloud.asked('upload-url').map(({ body }) => JSON.parse(String(body)).mode)
    expect(new Set(modes)).to.deep.equal(new Set(['audit', 'tree', 'journal', 'checkpoint', 'agent', 'raw']))
    expect(modes.indexOf('audit')).to.be.below(modes.lastIndexOf('journal'))
    for (const mode of ['tree', 'journal']) {
      expect(modes.lastIndexOf(mode), mode).to.be.below(modes.lastIndexOf('checkpoint'))
    }
    const log = textOf(dir.path, daily)
    const journal = textOf(dir.path, 'audit.journal')
    const id = JSON.parse(journal.split('\n')[0] ?? '').log_id.slice(0, 16)
    expect(cloud.assembled(`journal/${DAY}`, `audit-${id}`)).to.equal(journal)
    const tree = readFileSync(join(dir.path, 'tree/0/0'))
    expect(cloud.assembledBytes(`tree/${DAY}`, `audit-${id}-0-0`)).to.deep.equal(tree)
    expect(cloud.assembled(`agents/node%2F1/${DAY}`, 'run%207')).to.equal(log)
    expect(cloud.assembled(`raw/${DAY}`, `raw-${DAY}`)).to.equal(textOf(dir.path, `raw/raw-${DAY}.ndjson`))
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`)).to.match(/^\S*svc-audit/)
  })

  it('skips files of no dataset, and an incomplete line', async () => {
    mkdirSync(join(dir.path, 'raw'))
    writeFileSync(join(dir.path, `${daily}.torn-1`), 'torn\n')
    writeFileSync(join(dir.path, 'notes.ndjson'), '{}\n')
    writeFileSync(join(dir.path, daily), 'whole line\nbegun')
    const { appender } = uploading(dir.path, cloud)
    await appender.ready()
    await appender.close()
    expect([...cloud.objects.values()].map(String)).to.deep.equal(['whole line\n'])
  })

  it('splits a long backlog at newlines, and keeps a long line whole', async () => {
    const { appender } = uploading(dir.path, cloud, {}, { limits: { uploadRangeBytes: 2_000 } })
    for (let i = 0; i < 12; i++) {
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(i === 5 ? 300_000 : 300) } }))
    }
    await appender.close()
    expect(cloud.objects.size).to.be.within(4, 12)
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  it('ends a round even if the log grows faster than it is uploaded', async function () {
    this.timeout(60_000)
    const { appender } = await uploadingSoon(dir.path, cloud, {}, { limits: { uploadRangeBytes: 500 } })
    const growing: Promise<void>[] = []
    cloud.intercept = ({ method }) => {
      // Far more than an object holds; bounded, to distinguish a round that does not end from one that does.
      if (method === 'PUT' && growing.length < 300) {
        for (let i = 0; i < 10; i++) growing.push(appender.append(envelope()))
      }
      return false
    }
    await appender.append(envelope())
    await appender.flush()
    cloud.intercept = () => false
    expect(cloud.asked('/store/')).to.have.length(1)
    await Promise.all(growing)
    await appender.close()
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  describe('metadata', () => {
    it('is not requested when the configuration has it', async () => {
      const { appender } = uploading(dir.path, cloud)
      await appender.append(envelope())
      await appender.close()
      expect(cloud.asked('validate-key')).to.deep.equal([])
    })

    it('is requested once if a field is missing, and the configuration wins', async () => {
      const presign = {
        apiBaseUrl: cloud.url,
        auditKey: 'Bearer k',
        clientName: 'mine',
        intervalMs: 3_600_000,
      }
      const bare = appenderIn(dir.path, { config: { presign } })
      for (let i = 0; i < 2; i++) {
        for (const agentRef of ['a', 'b', 'c']) await bare.append(envelope({ nodeId: 'n', agentRef }))
        await bare.flush()
      }
      await bare.close()
      expect(cloud.asked('validate-key').map(({ body }) => String(body))).to.deep.equal(['{}'])
      expect([...cloud.objects.keys()].join()).to.include('tenants/acme/prod/clients/mine/1.0.0/')
    })

    it('accepts either name of the environment', async () => {
      cloud.intercept = ({ path }, response) => {
        if (!path.includes('validate-key')) return false
        response.end(JSON.stringify({ tenant: 't', environment: 'e', clientName: 'c', clientVersion: 'v' }))
        return true
      }
      const appender = appenderIn(dir.path, {
        config: { presign: { apiBaseUrl: cloud.url, auditKey: 'Bearer k' } },
      })
      await appender.append(envelope())
      await appender.close()
      expect([...cloud.objects.keys()][0]).to.match(/^tenants\/t\/e\/clients\/c\/v\/ingest\//)
    })
  })

  describe('begins', () => {
    it('after enough new bytes', async () => {
      const { appender } = await uploadingSoon(dir.path, cloud, {}, { limits: { uploadTriggerBytes: 300 } })
      await appender.append(envelope())
      await cloud.until(() => cloud.objects.size > 0)
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(500) } }))
      await cloud.until(() => cloud.objects.size === 2)
      await appender.close()
    })

    it('when the day changes', async () => {
      const { appender } = await uploadingSoon(dir.path, cloud)
      await appender.append(envelope())
      await appender.flush()
      await appender.append(envelope({ ts: '2026-11-22T00:00:01Z' }))
      await cloud.until(() => [...cloud.objects.keys()].some((key) => key.includes('/2026-11-22/')))
      await appender.close()
    })

    it('at every interval, whichever process wrote the bytes', async () => {
      const { appender } = uploading(dir.path, cloud, { intervalMs: 20 })
      await appender.ready()
      writeFileSync(join(dir.path, 'audit-2026-11-20.ndjson'), '{"by":"another process"}\n')
      await cloud.until(() => cloud.objects.size === 1)
      await appender.close()
    })
  })

  it('runs in one of several writers, and in another after that one closes', async () => {
    const first = uploading(dir.path, cloud)
    await first.appender.ready()
    await first.appender.flush()
    const second = uploading(dir.path, cloud)
    await second.appender.append(envelope())
    await second.appender.flush()
    expect(second.appender.status().upload).to.include({ state: 'standby', uploadedBytes: 0 })
    expect(cloud.objects.size).to.equal(0)
    await first.appender.close()
    await second.appender.append(envelope())
    await second.appender.flush()
    await second.appender.close()
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  it('reports its status and metrics', async () => {
    const meter = new RecordingMeter()
    const { appender } = await uploadingSoon(dir.path, cloud, {}, { meter })
    await appender.append(envelope())
    await appender.flush()
    const bytes = textOf(dir.path, daily).length
    expect(appender.status().upload).to.deep.equal({
      state: 'idle',
      uploadedBytes: bytes,
      objects: 1,
      pendingBytes: 0,
      isBehind: false,
      failures: 0,
      lastUploadAt: Date.parse('2026-11-21T12:00:00Z'),
    })
    expect(meter.read('svc_audit_upload_pending_bytes')).to.equal(0)
    expect(meter.read('svc_audit_upload_oldest_pending_seconds')).to.equal(0)
    const last = meter.read('svc_audit_upload_last_success_timestamp_seconds')
    expect(last).to.equal(Date.parse('2026-11-21T12:00:00Z') / 1000)
    await appender.close()
    expect([...meter.values]).to.deep.equal([
      ['svc_audit_upload_bytes_total', bytes],
      ['svc_audit_upload_objects_total', 1],
    ])
  })

  it('uploads the checkpoints, the last ones included', async () => {
    const { appender, errors } = uploading(dir.path, cloud, {}, { sealed: true })
    await appender.append(envelope())
    await appender.seal()
    await appender.append(envelope())
    await appender.close()
    expect(errors).to.deep.equal([])
    const checkpoints = textOf(dir.path, `audit-${DAY}.checkpoint`)
    expect(checkpoints.match(/^\S*svc-audit/gm)).to.have.length(3)
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`)).to.equal(checkpoints)
  })

  it('uploads no incomplete note', async () => {
    const { appender } = uploading(dir.path, cloud, {}, { sealed: true })
    await appender.append(envelope())
    await appender.seal()
    const whole = textOf(dir.path, `audit-${DAY}.checkpoint`)
    // Some lines of the next note, as a sealer that dies may leave them.
    appendFileSync(join(dir.path, `audit-${DAY}.checkpoint`), whole.slice(0, 150))
    await appender.flush()
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`)).to.equal(whole)
    await appender.append(envelope())
    await appender.close()
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`)).to.equal(
      textOf(dir.path, `audit-${DAY}.checkpoint`),
    )
  })

  it('leaves out a checkpoint that the log has not signed, and uploads what follows', async () => {
    const logger = memoryLogger()
    const { appender, errors } = uploading(dir.path, cloud, {}, { sealed: true, logger })
    await appender.append(envelope())
    await appender.seal()
    const whole = textOf(dir.path, `audit-${DAY}.checkpoint`)
    appendFileSync(join(dir.path, `audit-${DAY}.checkpoint`), forgedFrom(whole))
    await appender.append(envelope())
    await appender.flush()
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`)).to.equal(whole)
    await appender.seal()
    await appender.close()
    expect(cloud.assembled(`checkpoints/${DAY}`, `audit-${DAY}`))
      .to.equal(textOf(dir.path, `audit-${DAY}.checkpoint`))
      .and.not.include('\n999\n')
    const journal = textOf(dir.path, 'audit.journal')
    const id = JSON.parse(journal.split('\n')[0] ?? '').log_id.slice(0, 16)
    expect(cloud.assembled(`journal/${DAY}`, `audit-${id}`)).to.equal(journal)
    expect(errors).to.deep.equal([])
    expect(logger.entries.map(({ message }) => message)).to.deep.equal([
      'cut off notes that no key of the log has signed',
    ])
  })

  /** The last checkpoint of the file with another number of leaves. */
  function forgedFrom(checkpoints: string): string {
    return checkpoints
      .slice(checkpoints.lastIndexOf('log.svc-audit/', checkpoints.lastIndexOf('\u2014') - 1))
      .replace(/\n\d+\n/, '\n999\n')
  }

  it('treats an existing object as uploaded', async () => {
    cloud.intercept = (request, response) => {
      if (!request.path.startsWith('/store/')) return false
      cloud.objects.set(request.path.slice('/store/'.length), request.body)
      response.statusCode = 412
      response.end()
      return true
    }
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(errors).to.deep.equal([])
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })
})
