import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { exportingLog, receiver } from './receivers.js'

describe('the export to a file', () => {
  const dir = temporaryDir()
  const path = () => join(dir.path, 'out', 'audit.ndjson')
  const open = (changes: { maxBytes?: number; files?: number } = {}) =>
    exportingLog(join(dir.path, 'log'), {
      receiver: receiver({ type: 'file', path: path(), maxBytes: 1_000_000, files: 3, ...changes }),
    })
  const spansIn = (file: string) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line).span_id)
  beforeEach(() => mkdirSync(join(dir.path, 'out')))

  it('appends a line for each record, which the group may read, and goes on after a rename by others', async () => {
    await using log = open()
    const first = await log.append(2)
    await log.attempt()
    expect(statSync(path()).mode & 0o777).to.equal(0o640)
    renameSync(path(), `${path()}-1`)
    const second = await log.append(2)
    await log.attempt()
    expect([spansIn(`${path()}-1`), spansIn(path())]).to.deep.equal([first, second])
  })

  it('renames a full file, and keeps as many as it should', async () => {
    await using log = open({ maxBytes: 600, files: 2 })
    const spans: string[] = []
    for (let n = 0; n < 5; n++) {
      spans.push(...(await log.append(1)))
      await log.attempt()
    }
    const names = readdirSync(join(dir.path, 'out')).sort()
    expect(names[0]).to.equal('audit.ndjson')
    expect(names.slice(1).every((name) => /^audit\.ndjson\.\d{8}T\d{9}Z$/.test(name))).to.equal(true)
    const kept = [...names.slice(1), 'audit.ndjson'].flatMap((name) => spansIn(join(dir.path, 'out', name)))
    expect(names).to.have.length(3)
    expect(kept).to.deep.equal(spans.slice(-kept.length))
  })

  it('begins a new line after one that was cut off', async () => {
    await using log = open()
    appendFileSync(path(), '{"cut')
    const spans = await log.append(1)
    await log.attempt()
    expect(spansIn(path())).to.deep.equal(spans)
  })

  it('loses nothing where the file cannot be written', async () => {
    await using log = open()
    const spans = await log.append(3)
    rmdirSync(join(dir.path, 'out'))
    expect((await log.attempt()).error).to.include('ENOENT')
    mkdirSync(join(dir.path, 'out'))
    execFileSync('mkfifo', [path()])
    expect((await log.attempt()).error).to.include('is not a regular file')
    renameSync(path(), `${path()}-pipe`)
    expect(await log.attempt()).to.deep.equal({ records: 3, error: '' })
    expect(spansIn(path())).to.deep.equal(spans)
  })

  it('exports the rest after a restart, and lets one process of several export', async () => {
    const first = open()
    const spans = await first.append(2)
    await first.attempt()
    await using second = open()
    spans.push(...(await second.append(2)))
    await second.attempt()
    expect(second.appender.status().exports?.[0]?.state).to.equal('standby')
    await first.appender.close()
    spans.push(...(await second.append(2)))
    expect((await second.attempt()).error).to.equal('')
    expect(spansIn(path())).to.deep.equal(spans)
    expect(existsSync(join(dir.path, 'log', '.svc-export-siem.json'))).to.equal(true)
  })
})
