import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { temporaryDir } from '../../temporary.js'
import { DAY, envelope, fixedClock } from '../writer/records.js'
import { type Cloud, startCloud } from './cloud.js'
import { stateOf, textOf, uploading } from './rig.js'

const daily = `audit-${DAY}.ndjson`

describe('retention with upload', () => {
  const dir = temporaryDir()
  let cloud: Cloud
  beforeEach(async () => {
    cloud = await startCloud()
  })
  afterEach(() => cloud[Symbol.asyncDispose]())

  const old = 'audit-2026-10-01.ndjson'

  it('removes a sealed log and its checkpoints when both are uploaded, and leaves a statement', async () => {
    writeFileSync(join(dir.path, old), '{"a":1}\n')
    const keeping = uploading(dir.path, cloud, {}, { sealed: true, retentionDays: 100 })
    await keeping.appender.ready()
    await keeping.appender.close()
    const checkpoint = textOf(dir.path, 'audit-2026-10-01.checkpoint')
    const { appender } = uploading(dir.path, cloud, {}, { sealed: true, retentionDays: 10 })
    await appender.append(envelope())
    await appender.close()
    for (const name of [old, 'audit-2026-10-01.checkpoint', 'audit-2026-10-01.tree']) {
      expect(() => textOf(dir.path, name), name).to.throw('ENOENT')
    }
    expect(cloud.assembled('checkpoints/2026-10-01', 'audit-2026-10-01')).to.equal(checkpoint)
    const [, size, root] = checkpoint.split('\n')
    const statement = textOf(dir.path, 'audit-removed.notes')
    expect(statement).to.include(`\nremoved 2026-10-01 ${size} ${root}\n`)
    expect(cloud.assembled('checkpoints/2026-10-01', 'audit-removed')).to.equal(statement)
    const told = cloud.asked('upload-url').map(({ body }) => JSON.parse(String(body)))
    const { mode, date } = told.find(({ key }) => key.includes('audit-removed'))
    expect([mode, date]).to.deep.equal(['checkpoint', '2026-10-01'])
  })

  it('uploads later statements to the folder of the first', async () => {
    for (const day of ['2026-10-01', '2026-10-02'])
      writeFileSync(join(dir.path, `audit-${day}.ndjson`), '{}\n')
    const clock = fixedClock('2026-10-20T12:00:00Z')
    for (const retentionDays of [18, 17]) {
      const { appender } = uploading(dir.path, cloud, {}, { sealed: true, retentionDays, clock })
      await appender.seal()
      await appender.close()
    }
    const statements = textOf(dir.path, 'audit-removed.notes')
    expect(statements.match(/^removed /gm)).to.have.length(2)
    expect(cloud.assembled('checkpoints/2026-10-01', 'audit-removed')).to.equal(statements)
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
    cloud.fault = (request, response) => {
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
})
