import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { UploadError } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ofEachTest } from '../../../../support/parts.js'
import { propertyRuns } from '../../../../support/property-runs.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { append } from '../seal/rig.js'
import { sealedLog } from '../seal/sealed-log.js'
import { DAY, envelope, fixedClock } from '../writer/records.js'
import { type CloudRequest, failing, startCloud } from './cloud.js'
import { stateOf, textOf, uploading } from './rig.js'

const daily = `audit-${DAY}.ndjson`

describe('retention with upload', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  const old = 'audit-2026-10-01.ndjson'

  it('removes a sealed day once it is uploaded, and uploads its cover and the statement', async () => {
    const clock = fixedClock('2026-10-01T12:00:00Z')
    const rig = () => uploading(dir.path, cloud, {}, { sealed: true, retentionDays: 10, clock })
    const first = rig()
    await append(first.appender, 3, '2026-10-01')
    await first.appender.close()
    for (let day = 0; day < 12; day++) {
      clock.ms += 25 * 3_600_000
      const each = rig()
      await each.appender.ready()
      await each.appender.close()
    }
    expect(() => textOf(dir.path, old)).to.throw('ENOENT')
    const { journal } = sealedLog(dir.path)
    expect(journal.filter(({ kind }) => kind === 'remove')).to.have.length(1)
    const cover = readFileSync(join(dir.path, 'audit-2026-10-01.cover'))
    expect(cloud.assembledBytes('covers/2026-10-01', 'audit-2026-10-01')).to.deep.equal(cover)
    const id = journal[0]!['log_id'].slice(0, 16)
    expect(cloud.assembled('journal/2026-10-01', `audit-${id}`)).to.include('"kind":"remove"')
    const newest =
      readdirSync(dir.path)
        .filter((name) => name.endsWith('.checkpoint'))
        .sort()
        .at(-1) ?? ''
    const day = newest.slice('audit-'.length, -'.checkpoint'.length)
    expect(cloud.assembled(`checkpoints/${day}`, `audit-${day}`)).to.equal(textOf(dir.path, newest))
    // The oldest checkpoints are removed too.
    expect(() => textOf(dir.path, 'audit-2026-10-01.checkpoint')).to.throw('ENOENT')
  })

  it('removes old files when they are completely uploaded, and drops their state', async () => {
    writeFileSync(join(dir.path, old), '{"a":1}\n')
    mkdirSync(join(dir.path, 'agents/n/2026-10-01'), { recursive: true })
    writeFileSync(join(dir.path, 'agents/n/2026-10-01/r.ndjson'), '{"a":1}\n')
    const { appender } = uploading(dir.path, cloud, {}, { retentionDays: 10 })
    await appender.append(envelope())
    await appender.close()
    expect(() => textOf(dir.path, old)).to.throw('ENOENT')
    expect(() => textOf(dir.path, 'agents/n/2026-10-01/r.ndjson')).to.throw('ENOENT')
    expect(cloud.assembled('ingest/2026-10-01', 'audit-2026-10-01')).to.equal('{"a":1}\n')
    expect(Object.keys(stateOf(dir.path).files)).to.deep.equal([daily])
  })

  it('keeps files that are not uploaded', async () => {
    writeFileSync(join(dir.path, old), '{"a":1}\n')
    writeFileSync(join(dir.path, `${old}.torn-1`), 'half')
    writeFileSync(join(dir.path, 'audit-2026-10-02.ndjson'), '{"a":2}\n')
    cloud.intercept = (request, response) => {
      if (!request.path.startsWith('/store/') || !request.path.includes('2026-10-01')) return false
      response.statusCode = 400
      response.end()
      return true
    }
    const { appender } = uploading(dir.path, cloud, {}, { retentionDays: 10 })
    await appender.ready()
    await appender.close()
    expect(textOf(dir.path, old)).to.equal('{"a":1}\n')
    expect(textOf(dir.path, `${old}.torn-1`)).to.equal('half')
    expect(() => textOf(dir.path, 'audit-2026-10-02.ndjson')).to.throw('ENOENT')
  })

  it('sends new bytes between the listings of expired files', async () => {
    for (const day of ['01', '02', '03'])
      writeFileSync(join(dir.path, `audit-2026-10-${day}.ndjson`), '{"a":1}\n')
    const before = uploading(dir.path, cloud, {}, { retentionDays: 100 })
    await before.appender.ready()
    await before.appender.close()
    cloud.requests.length = 0
    const { appender } = uploading(dir.path, cloud, {}, { retentionDays: 10 })
    cloud.intercept = ({ path }) => {
      const isFirst = path.includes('/objects') && cloud.asked('/objects').length === 1
      if (isFirst) writeFileSync(join(dir.path, daily), '{"new":1}\n')
      return false
    }
    await appender.ready()
    await appender.flush()
    await appender.close()
    const isPut = ({ method, path }: CloudRequest) => method === 'PUT' && path.includes(`/ingest/${DAY}/`)
    const put = cloud.requests.findIndex(isPut)
    expect(put).to.be.above(-1)
    expect(put).to.be.below(cloud.requests.findLastIndex(({ path }) => path.includes('/objects')))
  })

  describe('whose objects the store has lost or changed', () => {
    const isOfOld = (key: string) => key.includes('/ingest/2026-10-01/')
    /** Uploads the old file while it is within its retention. */
    async function uploadOld(): Promise<string> {
      writeFileSync(join(dir.path, old), '{"a":1}\n')
      const { appender } = uploading(dir.path, cloud, {}, { retentionDays: 100 })
      await appender.ready()
      await appender.close()
      return [...cloud.objects.keys()].find(isOfOld) ?? ''
    }
    const clock = fixedClock()
    /** @param hours since the start of the tests. */
    async function retain(hours = 1): Promise<UploadError[]> {
      clock.ms = fixedClock().ms + hours * 3_600_000
      const { appender, errors } = uploading(dir.path, cloud, {}, { retentionDays: 10, clock })
      await appender.ready()
      await appender.close()
      return errors
    }

    it('keeps the file and uploads it again, and removes it once its objects are confirmed', async () => {
      const key = await uploadOld()
      cloud.objects.delete(key)
      // The first round keeps the file; the one at close uploads it.
      const errors = await retain()
      expect(errors.map(({ message }) => message)).to.deep.equal([
        `the store does not have all of ${old}, which was uploaded: it is kept, and what follows byte 0 is uploaded again`,
      ])
      expect(cloud.objects.get(key)?.toString()).to.equal('{"a":1}\n')
      await retain()
      expect(() => textOf(dir.path, old)).to.throw('ENOENT')
    })

    it('keeps a file whose object has another checksum', async () => {
      cloud.objects.set(await uploadOld(), Buffer.from('{"a":2}\n'))
      expect((await retain()).map(({ code }) => code)).to.include('upload_file')
      expect(textOf(dir.path, old)).to.equal('{"a":1}\n')
    })

    it('uploads only what follows the bytes that it has', async () => {
      await uploadOld()
      appendFileSync(join(dir.path, old), '{"a":2}\n')
      const second = uploading(dir.path, cloud, {}, { retentionDays: 100 })
      await second.appender.ready()
      await second.appender.close()
      const [, later = ''] = [...cloud.objects.keys()].filter(isOfOld)
      cloud.objects.delete(later)
      await retain()
      const keys = cloud.asked('upload-url').map(({ body }) => JSON.parse(String(body)).key)
      expect(keys.filter(isOfOld).slice(2)).to.deep.equal([later])
    })

    it('waits for an object that the store does not list yet, and keeps the file until then', async () => {
      const key = await uploadOld()
      const bytes = cloud.objects.get(key) ?? Buffer.alloc(0)
      cloud.objects.delete(key)
      expect(await retain(0.1)).to.deep.equal([])
      expect(textOf(dir.path, old)).to.equal('{"a":1}\n')
      cloud.objects.set(key, bytes)
      expect(await retain(0.1)).to.deep.equal([])
      expect(() => textOf(dir.path, old)).to.throw('ENOENT')
    })

    it('keeps a file that has grown since it was found, until all of it is confirmed', async () => {
      writeFileSync(join(dir.path, old), '{"a":1}\n')
      // The store reports that it has taken the bytes, but has not.
      cloud.intercept = ({ method, path }, response) => {
        if (method !== 'PUT' || !isOfOld(path)) return false
        if (cloud.asked('/store/').length === 1) appendFileSync(join(dir.path, old), '{"a":2}\n')
        response.end()
        return true
      }
      await retain()
      expect(textOf(dir.path, old)).to.equal('{"a":1}\n{"a":2}\n')
    })

    it('keeps the file if a control plane that has listed objects responds with 404', async () => {
      writeFileSync(join(dir.path, 'audit-2026-10-02.ndjson'), '{"b":1}\n')
      cloud.objects.delete(await uploadOld())
      let listed = 0
      cloud.intercept = ({ path }, response) => {
        if (!path.includes('/objects') || ++listed === 1) return false
        response.writeHead(404).end()
        return true
      }
      // The listing of the first file says that it is missing; what follows says nothing about the second.
      expect((await retain()).map(({ code }) => code)).to.include('upload_rejected')
      expect(textOf(dir.path, 'audit-2026-10-02.ndjson')).to.equal('{"b":1}\n')
    })

    it('removes the file unconfirmed if the control plane lists no objects', async () => {
      cloud.lists = false
      cloud.objects.delete(await uploadOld())
      expect(await retain()).to.deep.equal([])
      expect(() => textOf(dir.path, old)).to.throw('ENOENT')
    })
  })

  describe('after a restart, if the listing that worked fails', () => {
    const older = 'audit-2026-09-01.ndjson'
    const clock = fixedClock()
    const lines = { [older]: '{"a":1}\n', [old]: '{"b":1}\n' }

    async function opened(retentionDays: number, apiBaseUrl = cloud.url): Promise<UploadError[]> {
      clock.ms += 3_600_000
      const { appender, errors } = uploading(dir.path, cloud, { apiBaseUrl }, { retentionDays, clock })
      await appender.ready()
      await appender.close()
      return errors
    }

    /** Uploads two days, and removes the older one, which the control plane lists. The store then loses the other. */
    async function removedOne(): Promise<void> {
      for (const [path, text] of Object.entries(lines)) writeFileSync(join(dir.path, path), text)
      await opened(60)
      expect(readdirSync(dir.path)).to.include(old).and.not.include(older)
      for (const key of cloud.objects.keys()) if (key.includes('/2026-10-01/')) cloud.objects.delete(key)
    }

    const isHere = (): boolean => readdirSync(dir.path).includes(old)
    const isStored = (): boolean => [...cloud.objects.values()].some((bytes) => String(bytes) === lines[old])

    const state = () => join(dir.path, '.svc-presign-state.json')
    const states: Readonly<Record<string, () => void>> = {
      kept: () => undefined,
      lost: () => rmSync(state()),
      'without its record of the listing': () => {
        const { listed_by: _, ...rest } = JSON.parse(readFileSync(state(), 'utf8')) as Record<string, unknown>
        writeFileSync(state(), JSON.stringify(rest))
      },
      'with files that were never uploaded': () => {
        const { files, ...rest } = stateOf(dir.path)
        const progress = { offset: 8, updatedAt: new Date(0).toISOString() }
        writeFileSync(state(), JSON.stringify({ ...rest, files: { ...files, [old]: progress } }))
      },
    }
    // The other statuses are treated alike with each state.
    const isSample = propertyRuns(1) === 1
    for (const status of [400, 401, 403, 404, 405, 501, 503]) {
      for (const [title, change] of Object.entries(states)) {
        if (isSample && title !== 'kept' && status !== 404) continue
        it(`with ${status}, and the state is ${title}: no file is removed that the store does not have`, async () => {
          await removedOne()
          change()
          cloud.intercept = failing('/api/svc/objects', status)
          for (let restart = 0; restart < 2; restart++) {
            const errors = await opened(10)
            expect(isHere() || isStored(), `restart ${restart}`).to.equal(true)
            if (title === 'kept')
              expect(errors.map(({ code }) => code)).to.include(
                status === 503 || status === 501 ? 'upload_failed' : 'upload_rejected',
              )
          }
          if (title === 'kept') expect(isHere()).to.equal(true)
          cloud.intercept = () => false
          for (let restart = 0; restart < 2; restart++) await opened(10)
          expect([isHere(), isStored()]).to.deep.equal([false, true])
        })
      }
    }

    it('removes files by a control plane at another address that lists no objects', async () => {
      await removedOne()
      await using other = await startCloud()
      other.lists = false
      await opened(10, other.url)
      expect(isHere()).to.equal(false)
    })
  })
})
