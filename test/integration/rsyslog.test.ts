// The configuration of docs/collectors.md with a real rsyslog, which tails a log while it grows.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { appenderIn, envelope, fixedClock } from '../plugins/audit/log/writer/records.js'
import { endWithRunner } from '../support/child-lifetime.js'
import { blocks } from '../support/pages.js'
import { until } from '../support/stdio-target.js'
import { temporaryDir } from '../support/temporary-dir.js'

const program = ['/usr/sbin/rsyslogd', '/sbin/rsyslogd'].find((path) => existsSync(path))
const configuration = blocks.find(
  ({ page, text }) => page === 'docs/collectors.md' && text.includes('type="imfile"'),
)

describe('rsyslog with the configuration of the page', () => {
  const dir = temporaryDir()
  const at = (name: string): string => join(dir.path, name)
  let rsyslog: ChildProcess | undefined

  before(function () {
    // Debian: rsyslog.
    if (program === undefined) this.skip()
  })

  beforeEach(() => {
    for (const folder of ['audit', 'spool']) mkdirSync(at(folder))
    const text = (configuration?.text ?? '')
      .replace('/var/spool/rsyslog', at('spool'))
      .replace('/var/lib/svc/audit', at('audit'))
      .replace('/var/log/svc/records.ndjson', at('records.ndjson'))
    writeFileSync(at('rsyslog.conf'), text)
  })

  afterEach(stop)

  function start(): void {
    const args = ['-n', '-f', at('rsyslog.conf'), '-i', at('pid')]
    rsyslog = endWithRunner(spawn(program ?? '', args, { stdio: 'ignore' }))
  }

  async function stop(): Promise<void> {
    const child = rsyslog
    rsyslog = undefined
    if (child === undefined || child.exitCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }

  async function append(day: string, ...tools: string[]): Promise<void> {
    await using appender = appenderIn(at('audit'), { clock: fixedClock(`${day}T12:00:00Z`) })
    for (const tool of tools) await appender.append(envelope({ ts: `${day}T10:00:00.000Z`, tool }))
  }

  const linesIn = (path: string) => readFileSync(path, 'utf8').split('\n').slice(0, -1)
  const appended = () =>
    readdirSync(at('audit'))
      .filter((name) => /^audit-.*\.ndjson$/.test(name))
      .flatMap((name) => linesIn(join(at('audit'), name)))
  const received = () => (existsSync(at('records.ndjson')) ? linesIn(at('records.ndjson')) : [])

  it('sends each record once as it is stored, long ones too, over days and a time when it does not run', async () => {
    await append('2026-11-21', 'a@1', 'ünï\u0007 "quoted" \u{1f600}@1')
    start()
    await until(() => received().length >= 2)
    await append('2026-11-21', `${'long'.repeat(20_000)}@1`)
    await append('2026-11-22', 'b@1')
    await until(() => received().length >= 4)
    await stop()
    await append('2026-11-22', 'c@1', 'd@1')
    start()
    await until(() => received().length >= 6)
    await stop()
    expect(received().toSorted()).to.deep.equal(appended().toSorted())
    expect(appended()).to.have.length(6)
  })
})
