import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { originHash } from '@svc/plugin-audit/internal/log/tools/witness/witness'
import { generateKeyFile, LocalDevSigner, resumeLog, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { vkeyOfLog } from '../../plugins/audit/log/tools/witness/rig.js'
import { DAY, envelope, fixedClock } from '../../plugins/audit/log/writer/records.js'
import { endWithRunner } from '../../support/child-lifetime.js'
import { runCommand } from '../../support/command.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'

interface WitnessProcess {
  readonly child: ChildProcess
  readonly url: string
  readonly key: string
  readonly errors: () => string
}

const audit = (...args: string[]) => runCommand(auditCommand, args)

describe('svc audit witness', function () {
  this.timeout(60_000)
  const dir = temporaryDir()
  const children: ChildProcess[] = []
  const path = (name: string) => join(dir.path, name)

  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => stop(child, 'SIGKILL')))
  })

  async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill(signal)
      await ended
    }
    return child.exitCode
  }

  /** Starts the command and waits until it listens. */
  async function start(name: string): Promise<WitnessProcess> {
    mkdirSync(path(name), { recursive: true })
    const key = path(`${name}.key`)
    if (!children.some(({ spawnargs }) => spawnargs.includes(key))) generateKeyFile(key)
    const args = [
      '--dir',
      path(name),
      '--key',
      key,
      '--logs',
      path('logs'),
      '--port',
      '0',
      '--name',
      `${name}.example/w`,
    ]
    const child = endWithRunner(spawn(process.execPath, [svc, 'audit', 'witness', ...args]))
    children.push(child)
    let out = ''
    let err = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text
    })
    for await (const text of child.stdout.setEncoding('utf8') as AsyncIterable<string>) {
      out += text
      const [, vkey, url] = /^key (.*)\nlistening on (.*)\n/.exec(out) ?? []
      if (vkey !== undefined && url !== undefined) return { child, url, key: vkey, errors: () => err }
    }
    throw new Error(`the witness did not start: ${err}`)
  }

  async function write(at: string, by: readonly WitnessProcess[], hour = '12'): Promise<string[]> {
    const errors: string[] = []
    const log = new SvcAppender({
      config: {
        dir: at,
        retentionDays: 30,
        origin: 'audit.example.com/prod',
        witnesses: by.map(({ url, key }) => ({ url, key })),
      },
      signer: LocalDevSigner.fromKeyRef(`file://${path('audit.key')}`),
      clock: fixedClock(`${DAY}T${hour}:00:00Z`),
      onAsyncError: ({ message }) => errors.push(message),
    })
    await log.append(envelope())
    await log.close()
    return errors
  }

  it('lets two companies cosign a log; one refuses a fork, also after kill -9', async () => {
    const { publicKey } = generateKeyFile(path('audit.key'))
    writeFileSync(
      path('logs'),
      `${vkeyOfLog(undefined, LocalDevSigner.fromKeyRef(`file://${path('audit.key')}`))}\n`,
    )
    writeFileSync(path('audit.pub'), `${publicKey}\n`)
    const [a, b] = [await start('a'), await start('b')]
    const [log, fork] = [path('log'), path('fork')]
    writeFileSync(path('witnesses.pub'), `# of two companies\n${a.key}\n${b.key}\n`)
    const verify = (at: string, ...more: string[]) =>
      audit('verify', at, '--keys', path('audit.pub'), '--witness-keys', path('witnesses.pub'), ...more)

    expect(await write(log, [a, b])).to.deep.equal([])
    const intact = await verify(log)
    expect([intact.code, intact.err]).to.deep.equal([0, ''])
    expect(intact.out).to.match(/\d leaves cosigned by 2 witnesses at \S+Z: a\.example\/w, b\.example\/w\n/)
    expect((await verify(log, '--fast')).code).to.equal(0)

    cpSync(log, fork, { recursive: true })
    await resumeLog(fork)
    expect(await write(log, [a])).to.deep.equal([])
    // The fork is first sent to the witness that has not seen the newer heads of the log.
    expect(await write(fork, [b], '13')).to.deep.equal([])
    expect(await write(log, [a, b])).to.have.length(1)
    await stop(a.child, 'SIGKILL')
    const again = await start('a')
    expect(again.key).to.equal(a.key)
    const refused = await write(fork, [again, b], '14')
    expect(refused).to.have.length(1)
    expect(refused[0]).to.match(/^the witness a\.example\/w did not cosign: .*(422|has fewer)/)
    // Both witnesses confirm only what came before the fork.
    const cosigned = async (at: string, ...more: string[]) =>
      JSON.parse((await verify(at, '--json', ...more)).out).cosigned
    const common = await cosigned(log)
    expect(common.by).to.deep.equal(['a.example/w', 'b.example/w'])
    expect(await cosigned(fork)).to.deep.equal(common)
    expect((await cosigned(log, '--quorum', '1')).by).to.deep.equal(['a.example/w'])
    expect((await cosigned(fork, '--quorum', '1')).by).to.deep.equal(['b.example/w'])
    // The head that a witness serves can be used as a head kept elsewhere.
    const hash = originHash('audit.example.com/prod')
    const response = await fetch(`${again.url}/${hash}/checkpoint`)
    writeFileSync(path('head'), await response.text())
    const against = (at: string) =>
      audit('verify', at, '--keys', path('audit.pub'), '--against', path('head'))
    expect((await against(log)).code).to.equal(0)
    expect((await against(fork)).err).to.match(/: (forked|rolled_back): /)
    expect(await stop(again.child, 'SIGTERM')).to.equal(0)
  })

  it('says why it cannot start', async () => {
    generateKeyFile(path('a.key'))
    const { err, code } = await audit('witness', '--dir', path('a'), '--key', path('a.key'))
    expect(code).to.equal(1)
    expect(err).to.match(/^svc-sdk audit witness: cannot read the logs at .*\/a\/logs: /)
  })

  it('rejects invalid witness keys and a quorum larger than the number of keys', async () => {
    writeFileSync(path('w.pub'), 'no key\n')
    const wrong = await audit('verify', dir.path, '--witness-keys', path('w.pub'))
    expect([wrong.code, wrong.err]).to.deep.equal([
      2,
      `svc-sdk audit verify: ${path('w.pub')}:1: a witness's key has the form <name>+<key id>+<base64>, with the signature type 4\n`,
    ])
    expect((await audit('verify', dir.path, '--quorum', '1')).err).to.include('--quorum needs --witness-keys')
    writeFileSync(path('w.pub'), 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2\n')
    const few = await audit('verify', dir.path, '--witness-keys', path('w.pub'), '--quorum', '2')
    expect(few.err).to.include('has 1 keys, fewer than the quorum')
  })
})
