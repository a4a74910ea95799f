import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize, toBase64 } from '@svc/core/json'
import { generateKeyFile, LocalDevSigner } from '@svc/plugin-audit/log'
import type { AuditReport } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { append } from '../../plugins/audit/log/seal/rig.js'
import { ORIGIN, witnesses } from '../../plugins/audit/log/tools/witness/rig.js'
import { appenderIn, DAY, envelope, fixedClock, signer } from '../../plugins/audit/log/writer/records.js'
import { LogBuilder } from '../../support/audit-log.js'
import { runCommand } from '../../support/command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

const audit = (...args: string[]) => runCommand(auditCommand, args)
const HOUR = 3_600_000

describe('svc audit report', function () {
  this.timeout(30_000)
  const dir = temporaryDir()
  const start = witnesses(dir)
  const path = (name: string) => join(dir.path, name)

  beforeEach(() => {
    generateKeyFile(path('auditor'))
    writeFileSync(path('keys'), `ed25519:${Buffer.from(signer.publicKey).toString('base64')}\n`)
  })

  const auditor = () => LocalDevSigner.fromKeyRef(`file://${path('auditor')}`)

  /** Writes a removed day, a day with records of two tenants, and a day without records. */
  async function writeLog(): Promise<string> {
    const log = path('log')
    const clock = fixedClock('2026-11-18T12:00:00Z')
    const open = () => appenderIn(log, { clock, config: { retentionDays: 1 } })
    const first = open()
    await append(first, 3, '2026-11-18')
    await first.close()
    for (let i = 0; i < 2; i++) {
      clock.ms += 25 * HOUR
      const idle = open()
      await idle.ready()
      await idle.close()
    }
    const last = open()
    await append(last, 2, '2026-11-20')
    const ts = '2026-11-20T11:00:00Z'
    const policy = { decision: 'deny', retention: 'standard' } as const
    await last.append(envelope({ ts, tenant: 'globex', status: 'error', error: 'TOOL_NOT_ALLOWED', policy }))
    await last.append(envelope({ ts, tenant: 'globex', status: 'error', error: 'OUTCOME_UNKNOWN' }))
    await last.append(envelope({ ts, tenant: 'globex', status: 'error', error: 'UPSTREAM' }))
    await last.close()
    return log
  }

  const range = ['--from', '2026-11-18', '--to', '2026-11-20']
  const reported = (name = 'out') => JSON.parse(readFileSync(path(`${name}.json`), 'utf8')) as AuditReport

  it('states the range, the records, the keys, the removals and the holds of an intact log', async () => {
    const log = await writeLog()
    writeFileSync(
      path('policy.yaml'),
      'tenant: acme\nport: 0\ntargets: { files: "http://127.0.0.1:1" }\nentitlements: open\nquotas: { adapter: memory }\n' +
        'audit: { gatewayName: gw, gatewayVersion: "1", signer: { keyRef: "file:///audit.key" }, hold: [{ tenant: acme, from: 2026-11-20 }] }\n',
    )
    const options = ['--sign-with', path('auditor'), '--keys', path('keys'), '--out', path('out')]
    const { code, out } = await audit('report', log, ...range, ...options, '--policy', path('policy.yaml'))
    expect([code, out.slice(0, 7)]).to.deep.equal([0, 'intact;'])
    const report = reported()
    expect(report.verification).to.include({ verdict: 'intact', selfVouched: false })
    expect(report.days).to.deep.equal([
      { day: '2026-11-18', state: 'removed', records: 0 },
      { day: '2026-11-19', state: 'empty', records: 0 },
      { day: '2026-11-20', state: 'present', records: 5 },
    ])
    const none = { allowed: 0, denied: 0, failed: 0, outcome_unknown: 0, denials: {} }
    expect(report.tenants).to.deep.equal([
      { ...none, tenant: 'acme', records: 2, allowed: 2 },
      {
        ...none,
        tenant: 'globex',
        records: 3,
        allowed: 2,
        denied: 1,
        failed: 1,
        outcome_unknown: 1,
        denials: { TOOL_NOT_ALLOWED: 1 },
      },
    ])
    expect(report.removals.map(({ day, records }) => [day, records])).to.deep.equal([['2026-11-18', 3]])
    expect(report.keys.map(({ key_id, until_leaf }) => [key_id, until_leaf])).to.deep.equal([
      [signer.keyId, null],
    ])
    expect(report.holds).to.deep.equal([{ tenant: 'acme', from: '2026-11-20' }])
    expect(report.heads.at(-1)).to.include(`\n${report.verification.head?.size}\n`)
    expect(report.gaps).to.deep.equal([])
  })

  it('reports what each witness confirms if their keys are given', async () => {
    const [a, b] = [await start('a'), await start('bb')]
    const log = path('log')
    const appender = appenderIn(log, {
      config: { origin: ORIGIN, witnesses: [{ url: a.url, key: a.vkey }] },
    })
    await append(appender, 3)
    await appender.close()
    writeFileSync(path('witnesses'), `${a.vkey}\n${b.vkey}\n`)
    const make = (...more: string[]) => {
      const days = ['--from', DAY, '--to', DAY]
      return audit('report', log, ...days, '--sign-with', path('auditor'), '--out', path('out'), ...more)
    }
    const given = ['--witness-keys', path('witnesses')]
    expect((await make(...given, '--quorum', '1')).code).to.equal(0)
    const { verification, witnesses: shown } = reported()
    const size = verification.head?.size
    expect(verification.cosigned).to.include({ size, quorum: 1 })
    expect(shown.map(({ at, ...rest }) => [rest, at !== null])).to.deep.equal([
      [{ name: 'a.example/w', checked: true, size }, true],
      [{ name: 'bb.example/w', checked: true, size: null }, false],
    ])
    expect(readFileSync(path('out.html'), 'utf8')).to.include(`<td>a.example/w</td><td>${size}</td>`)
    expect((await make(...given)).code).to.equal(1)
    expect(reported().verification.failureCounts).to.deep.equal({ missing_cosignature: 1 })
    expect((await make('--quorum', '1')).err).to.include('--quorum needs --witness-keys')
    await make()
    expect(reported().witnesses.map(({ name, checked }) => [name, checked])).to.deep.equal([
      ['a.example/w', false],
    ])
  })

  it('names the gaps of a log that is not intact, and exits 1', async () => {
    const log = await writeLog()
    const daily = join(log, 'audit-2026-11-20.ndjson')
    const lines = readFileSync(daily, 'utf8').split('\n')
    writeFileSync(daily, lines.filter((_, i) => i !== 1).join('\n'))
    const { code } = await audit(
      'report',
      log,
      ...range,
      '--sign-with',
      path('auditor'),
      '--out',
      path('out'),
    )
    expect(code).to.equal(1)
    expect(reported().gaps.map(({ kind }) => kind)).to.include('deleted')
    expect(readFileSync(path('out.html'), 'utf8'))
      .to.include('The log is NOT INTACT.')
      .and.include('deleted')
  })

  const check = (name: string, keys = 'auditor') => audit('check-report', path(name), '--keys', path(keys))
  const make = (log: string, ...more: string[]) =>
    audit('report', log, ...range, '--sign-with', path('auditor'), '--out', path('out'), ...more)

  it('is signed: check-report finds any change', async () => {
    await make(await writeLog())
    const signed = readFileSync(path('out.json'), 'utf8')
    const record = { ...reported(), key_id: auditor().keyId }
    const asRecord = toBase64(auditor().sign(Buffer.from(canonicalize(record))))
    for (const [title, text, why] of [
      ['a value', signed.replace('"denied":1', '"denied":0'), 'was changed after it was signed'],
      ['a second member before', signed.replace('"from"', '"from":"1999-01-01","from"'), 'not in the form'],
      ['a second member after', signed.replace(/}\n$/, ',"to":"2099-01-01"}\n'), 'not in the form'],
      ['white space', signed.replace('{', '{ '), 'not in the form'],
      ['a record of the same key', canonicalize({ ...record, sig: `ed25519:${asRecord}` }), 'was changed'],
      ['another text', '{}', 'not a signed report'],
    ] as const) {
      writeFileSync(path('changed'), text)
      const { code, out } = await check('changed')
      expect([code, out.startsWith('NOT A REPORT OF THESE KEYS: ')], title).to.deep.equal([1, true])
      expect(out, title).to.include(why)
    }
    expect((await check('out.json', 'keys')).out).to.include('signed by none of the keys')
  })

  it('makes check-report exit with 0 for an intact log, 1 for a damaged one, 2 for an error', async () => {
    const log = await writeLog()
    await make(log, '--keys', path('keys'))
    const intact = await check('out.json')
    expect([intact.code, intact.out]).to.deep.equal([
      0,
      `log ${reported().log?.origin}\nfrom 2026-11-18 to 2026-11-20\n` +
        `the report is as ${auditor().keyId} signed it\nintact\n`,
    ])
    const { size } = reported().verification.head as { size: number }
    const key = `ed25519:${toBase64(auditor().publicKey)}`
    for (const [leaves, code] of [
      [`0 ${size}`, 0],
      [`0 ${size - 1}`, 1],
      [`${size}`, 1],
    ] as const) {
      writeFileSync(path('ranged.pub'), `${key} ${leaves}\n`)
      const ranged = await check('out.json', 'ranged.pub')
      expect([leaves, ranged.code]).to.deep.equal([leaves, code])
      if (code !== 0) expect(ranged.out).to.include('not trusted at the end of the log that it states')
    }
    await make(log)
    expect((await check('out.json')).out).to.include('the log vouches for itself')
    const daily = join(log, 'audit-2026-11-20.ndjson')
    writeFileSync(daily, readFileSync(daily, 'utf8').replace('globex', 'acme'))
    await make(log)
    expect(await check('out.json')).to.deep.include({ code: 1 })
    expect((await check('out.json')).out).to.match(/NOT INTACT\n$/)
    rmSync(log, { recursive: true })
    mkdirSync(log)
    await make(log)
    expect((await check('out.json')).code).to.equal(2)
    expect((await check('out.json', 'no such file')).code).to.equal(2)
    expect((await check('no such file')).code).to.equal(2)
  })

  it('contains only heads and signature lines that were checked', async () => {
    const log = path('log')
    mkdirSync(log)
    const built = new LogBuilder(log, { at: '2026-11-18T10:00:00.000Z' })
    for (const day of ['2026-11-18', '2026-11-19', '2026-11-20']) {
      built.at = `${day}T10:00:00.000Z`
      built.record(day)
      built.seal()
    }
    built.finish()
    const heads = () => reported().heads
    expect((await make(log, '--keys', path('keys'))).code).to.equal(0)
    const true1 = heads()
    const stranger = `\u2014 ${built.origin} ${toBase64(new Uint8Array(68).fill(7))}\n`
    const file = join(log, 'audit-2026-11-18.checkpoint')
    const honest = readFileSync(file, 'utf8')
    // One signature of the first checkpoint is forged, and a line is added to the others; later checkpoints confirm them.
    const forged = honest
      .split(/(?<=\n)(?=\S*svc-audit)/)
      .map((note, i) => (i === 0 ? note.replace(/.{20}(?=.{8}\n$)/, 'A'.repeat(20)) : note))
      .join('')
    for (const [title, text] of [
      ['forged', forged],
      ['with lines of others', honest.replace(/(\u2014.*\n)/g, `${stranger}$1`)],
    ] as const) {
      writeFileSync(file, text)
      expect((await make(log, '--keys', path('keys'))).code, title).to.equal(0)
      for (const note of heads()) {
        expect(honest + readFileSync(join(log, 'audit-2026-11-20.checkpoint'), 'utf8'), title).to.include(
          note,
        )
      }
    }
    expect(true1).to.have.length(2)
  })

  it('has a page in which the values of records are escaped', async () => {
    const log = path('log')
    const appender = appenderIn(log)
    await appender.append(envelope({ tenant: '<script>alert("1")</script>' }))
    await appender.close()
    const day = ['--from', '2026-11-21', '--to', '2026-11-21']
    await audit('report', log, ...day, '--sign-with', path('auditor'), '--out', path('out'))
    const page = readFileSync(path('out.html'), 'utf8')
    expect(page).to.include('&lt;script&gt;alert(').and.not.include('<script')
  })

  it('refuses a wrong range with one line', async () => {
    const log = await writeLog()
    const { code, err } = await audit(
      ...['report', log, '--from', '2026-11-20', '--to', '2026-11-18', '--sign-with', path('auditor')],
    )
    expect([code, err]).to.deep.equal([
      2,
      'svc-sdk audit report: the range is two days, the first not after the last: 2026-01-01 2026-01-31\n',
    ])
  })
})
