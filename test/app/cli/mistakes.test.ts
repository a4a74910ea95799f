// What the commands say of the mistakes that people make first, and of those that the documentation shows: the whole
// output, which test/fixtures/mistakes.txt has.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { type Run, runSvc } from '../../support/command.js'
import { ofSuite } from '../../support/parts.js'
import { svc } from '../../support/svc.js'
import { onDisk, TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

const fixture = readFileSync(new URL('../../../fixtures/mistakes.txt', import.meta.url), 'utf8')
/** `$ svc` and the words of a command, its output and error, and its exit code. */
const cases = [...fixture.matchAll(/^\$ svc ?(.*)\n((?:(?!\$ svc).*\n)*?)exit (\d)\n/gm)].map(
  ([, line = '', said = '', code]) => ({ line, said, code: Number(code) }),
)
/** More than a difference that could be the time of the request. */
const SKEW_MS = 64_500
/** What a command prints of a mistake, in the examples of the documentation. */
const mistakeLine =
  /^(?:(?:error|warning) +\w+: |\S+\.(?:ndjson|ya?ml):\d+|svc-sdk [a-z -]+: |NOT |cannot be judged)/

describe('what a command says of a mistake', () => {
  const dir = new TemporaryDir(onDisk)
  const printed: string[] = []

  const upstream = ofSuite(() =>
    startUpstream((_, response) => {
      response.setHeader('date', new Date(Date.now() - SKEW_MS).toUTCString()).end('{}')
    }),
  )
  before(async () => {
    const base = {
      tenant: 'acme',
      port: 0,
      targets: {},
      audit: { gatewayName: 'edge', gatewayVersion: '1', minFreeMb: 0, signer: { keyRef: 'file://key' } },
      authn: { allowUnauthenticated: true },
      entitlements: { default_plan: 'all', plans: { all: {} }, tenants: {} },
      quotas: { adapter: 'memory' },
    }
    const audit = { ...base.audit, signer: { keyRef: 'file://none' } }
    const quotas = { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1' }
    const files = {
      'tab.yaml': 'tenant: acme\ntargets:\n\tfiles: http://127.0.0.1:1\n',
      'colon.yaml': 'tenant:acme\nport: 0\ntargets: {}\n',
      'indent.yaml': 'targets:\n  files: http://127.0.0.1:1\n   mail: http://127.0.0.1:2\n',
      'section.yaml': JSON.stringify({ quota: {}, ...base }),
      'unset.yaml': JSON.stringify({ ...base, tenant: `$\{env:SVC_NO_SUCH}` }),
      'no-key.yaml': JSON.stringify({ ...base, audit }),
      'doctor.yaml': JSON.stringify({ ...base, targets: { files: upstream.url }, quotas }),
      'good.yaml': JSON.stringify(base),
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(dir.path, name), text)
    for (const name of ['key', 'other']) await runSvc('keys', 'generate', '--out', join(dir.path, name))
    const log = join(dir.path, 'log')
    const appender = appenderIn(log, { signer })
    for (let i = 0; i < 3; i++) await appender.append(envelope({ key_id: signer.keyId }))
    await appender.close()
    await runSvc('audit', 'prove', log, '--all', '--out', join(dir.path, 'proof'))
    const daily = join(log, `audit-${DAY}.ndjson`)
    const lines = readFileSync(daily, 'utf8').split('\n')
    writeFileSync(daily, lines.with(1, lines[1]?.replace('acme', 'acmf') ?? '').join('\n'))
  })

  after(() => dir[Symbol.dispose]())

  /** Words with @ are files. A start is a process of its own; other commands run here. */
  async function run(line: string): Promise<Run> {
    const args = line.split(' ').filter((word) => word !== '')
    const isStart = /^(?:gateway|stdio) --policy/.test(line)
    const seen = await (isStart ? start : runSvc)(...args.map((arg) => arg.replace(/^@/, `${dir.path}/`)))
    const short = (text: string): string =>
      text
        .replaceAll(`${dir.path}/`, '')
        .replaceAll(upstream.url, 'http://127.0.0.1:9000')
        .replace(/svc-audit\/[0-9a-f]{16}/g, 'svc-audit/7f6baa398ad0fdb0')
        .replace(/is \d+ s ahead/, 'is 64 s ahead')
        .replace(/on \w+, \d+ MiB free/g, 'on ext4, 20480 MiB free')
    return { ...seen, out: short(seen.out), err: short(seen.err) }
  }

  function start(...args: readonly string[]): Promise<Run> {
    return new Promise((resolve) => {
      execFile(process.execPath, [svc, ...args], (error, out, err) =>
        resolve({ out, err, code: Number(error?.code ?? 0) }),
      )
    })
  }

  for (const { line, said, code } of cases) {
    it(`is the whole of the accepted text: svc ${line}`, async () => {
      const seen = await run(line)
      const text = `${seen.out}${seen.err}`
      printed.push(...text.split('\n'))
      expect(`${text}exit ${seen.code}`).to.equal(`${said}exit ${code}`)
    })
  }

  it('is as the documentation shows it', () => {
    const folder = new URL('../../../../docs/', import.meta.url)
    const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
    const blocks = pages.flatMap((page) =>
      readFileSync(new URL(page, folder), 'utf8')
        .split(/^```.*$/m)
        .filter((_, index) => index % 2 === 1),
    )
    const shown = blocks.flatMap((block) => block.split('\n').filter((line) => mistakeLine.test(line)))
    expect(shown).to.have.length.above(2)
    for (const line of shown) {
      // Numbers, addresses and ids are those of the example.
      const fixed = line.split(/[0-9a-f.:]*\d[0-9a-f.:-]*\u2026?/)
      const expected = fixed.map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('\\S*')
      expect(
        printed.some((one) => new RegExp(`^${expected}$`).test(one)),
        line,
      ).to.equal(true)
    }
  })
})
