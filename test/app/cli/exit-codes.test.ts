// Exit codes 0 and 1 of a command that judges are its verdicts; 2 is everything else. Every command is here: one that is
// added without a row fails.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { commandPath, manualOf } from 'svc-sdk/internal/cli/manual'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { allCommands, argsOf, runSvc } from '../../support/command.js'
import { svc } from '../../support/svc.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

/** The arguments of a command that end in each verdict, and those with which it cannot judge. */
interface Verdicts {
  readonly good: readonly string[]
  readonly bad: readonly string[]
  readonly none: readonly string[]
}

const commands = await allCommands()
const leaves = commands.filter((command) => command.commands.length === 0)
const judging = leaves.filter((command) => manualOf(command)?.verdicts !== undefined)
/** They need a bucket, or gateways: test/control-plane/fetch.test.ts, test/app/blocks/gateways.test.ts. */
const testedElsewhere = ['audit fetch', 'block lift']

describe('the exit code of', () => {
  const dir = new TemporaryDir()
  const at = (name: string): string => join(dir.path, name)

  function rows(): Readonly<Record<string, Verdicts>> {
    const [log, tampered, keys] = [at('log'), at('tampered'), at('keys')]
    const call = ['--tenant', 'acme', '--server', 'files', '--tool', 'read']
    const checked = ['--dir', log, '--keys', keys]
    return {
      'audit verify': { good: [log], bad: [tampered], none: [at('none')] },
      'audit check-proof': {
        good: [at('proof'), '--keys', keys],
        bad: [at('proof'), '--keys', at('strange')],
        none: [at('none'), '--keys', keys],
      },
      'audit consistency': {
        good: [at('old'), at('new'), ...checked],
        bad: [at('forged'), at('new'), ...checked],
        none: [at('none'), at('new'), ...checked],
      },
      'audit show': { good: [log], bad: [tampered], none: [at('none')] },
      'audit check-bundle': {
        good: [at('page.html'), '--keys', keys],
        bad: [at('page.html'), '--keys', at('strange')],
        none: [at('none'), '--keys', keys],
      },
      'policy check': { good: [at('valid.yaml')], bad: [at('invalid.yaml')], none: [at('none')] },
      'policy test': { good: [at('good.test.yaml')], bad: [at('bad.test.yaml')], none: [at('none')] },
      'policy diff': {
        good: [at('valid.yaml'), at('valid.yaml')],
        bad: [at('narrow.yaml'), at('valid.yaml')],
        none: [at('none'), at('valid.yaml')],
      },
      'policy replay': {
        good: [at('open.yaml'), '--log', log],
        bad: [at('valid.yaml'), '--log', log],
        none: [at('open.yaml'), '--log', tampered],
      },
      'policy explain': {
        good: [at('valid.yaml'), ...call, '--expect', 'deny'],
        bad: [at('valid.yaml'), ...call, '--expect', 'allow'],
        none: [at('invalid.yaml'), ...call, '--expect', 'deny'],
      },
      doctor: { good: [at('no-targets.yaml')], bad: [at('invalid.yaml')], none: [at('none')] },
      'ap2 inspect': {
        good: [at('mandate')],
        bad: [at('mandate'), '--audience', 'other'],
        none: [at('none')],
      },
    }
  }

  const lastNote = (text: string): string => text.split(/(?<=\n)(?=\S+\n\d+\n)/).at(-1) ?? ''

  before(async () => {
    for (const name of ['keys', 'strange', 'signer']) generateKeyFile(at(name))
    const log = at('log')
    const write = async (): Promise<string> => {
      const appender = appenderIn(log, { signer })
      await appender.append(envelope())
      await appender.close()
      return readFileSync(join(log, `audit-${DAY}.checkpoint`), 'utf8')
    }
    const [older, newer] = [await write(), await write()]
    writeFileSync(at('old'), lastNote(older))
    writeFileSync(at('new'), lastNote(newer))
    writeFileSync(at('forged'), lastNote(older).replace(/^.{43}=$/m, `${'A'.repeat(43)}=`))
    writeFileSync(at('keys'), readFileSync(join(log, 'public-keys')))
    cpSync(log, at('tampered'), { recursive: true })
    const daily = join(at('tampered'), `audit-${DAY}.ndjson`)
    writeFileSync(daily, readFileSync(daily, 'utf8').replace('acme', 'acmf'))
    mkdirSync(at('state'))
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { files: 'http://127.0.0.1:1' },
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1',
        minFreeMb: 0,
        signer: { keyRef: 'file://signer' },
      },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
    }
    writeFileSync(at('valid.yaml'), JSON.stringify(policy))
    writeFileSync(at('open.yaml'), JSON.stringify({ ...policy, authn: { allowUnauthenticated: true } }))
    writeFileSync(at('no-targets.yaml'), JSON.stringify({ ...policy, targets: {} }))
    const entitlements = { default_plan: 'none', plans: { none: {} }, tenants: {} }
    writeFileSync(at('narrow.yaml'), JSON.stringify({ ...policy, entitlements }))
    writeFileSync(at('invalid.yaml'), JSON.stringify({ ...policy, port: -1 }))
    for (const [name, expected] of [
      ['good', 'deny'],
      ['bad', 'allow'],
    ]) {
      const cases = [{ name: 'a call', call: 'files/read', expect: expected }]
      writeFileSync(at(`${name}.test.yaml`), JSON.stringify({ policy: 'valid.yaml', cases }))
    }
    await runSvc('audit', 'bundle', log, '--out', at('page.html'))
    const making = ['--keys', at('ap2.json'), '--audience', 'shop', '--total', '1', '--item', 'shoe']
    writeFileSync(at('mandate'), (await runSvc('ap2', 'make', ...making)).out)
    await runSvc('audit', 'prove', log, '--all', '--out', at('proof'))
  })

  after(() => dir[Symbol.dispose]())

  for (const command of judging) {
    const path = argsOf(command).join(' ')
    if (testedElsewhere.includes(path)) continue
    it(`${path} is 0 and 1 for its verdicts, and 2 if it cannot judge`, async () => {
      const row = rows()[path]
      if (row === undefined)
        throw new Error(`add a row to this test: the arguments of svc ${path} for each verdict`)
      for (const [code, args] of [row.good, row.bad, row.none].entries()) {
        const run = await runSvc(...argsOf(command), ...args)
        expect(run.code, JSON.stringify({ args, ...run })).to.equal(code)
      }
    })

    // It prints a JSON value for each record.
    if (path === 'audit show') continue

    it(`${path} is the same with --json, which prints one JSON value`, async () => {
      const row = rows()[path]
      for (const [code, args] of [row?.good ?? [], row?.bad ?? []].entries()) {
        const run = await runSvc(...argsOf(command), ...args, '--json')
        expect(run, JSON.stringify({ args, ...run })).to.include({ code, err: '' })
        expect(() => JSON.parse(run.out), run.out).to.not.throw()
      }
    })
  }

  for (const command of commands) {
    const isLeaf = leaves.includes(command)
    const path = commandPath(command)
    const code = isLeaf && !judging.includes(command) ? 1 : 2
    it(`${path} is ${code} for a usage error, which names the help`, async () => {
      const wrong = isLeaf ? '--bogus' : 'bogus'
      const said = isLeaf ? 'there is no option --bogus' : 'there is no command "bogus"'
      const listed = isLeaf ? 'options' : 'commands'
      expect(await runSvc(...argsOf(command), wrong)).to.deep.equal({
        out: '',
        err: `${path}: ${said}\n(npx ${path} --help lists the ${listed})\n`,
        code,
      })
    })
  }

  it('a process is that of its command', async () => {
    for (const [code, ...args] of [
      [2, 'policy', 'check'],
      [1, 'audit', 'stats', at('none')],
      [0, 'audit', 'verify', '--help'],
    ] as const) {
      const [exit] = await once(spawn(process.execPath, [svc, ...args], { stdio: 'ignore' }), 'exit')
      expect(exit, args.join(' ')).to.equal(code)
    }
  })
})
