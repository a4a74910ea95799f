import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PluginContext } from '@svc/core'
import { isKeyError, KeyReader } from '@svc/core/secret'
import { expect } from 'chai'
import sinon from 'sinon'
import { until } from '../../support/stdio-target.js'
import { temporaryDir } from '../../support/temporary-dir.js'

type SecretCommand = NonNullable<PluginContext['secrets']>[string]

const run = (program: string, settings: Partial<SecretCommand> = {}): SecretCommand => ({
  command: process.execPath,
  args: ['-e', program],
  timeout_ms: 10_000,
  cache_ms: 300_000,
  ...settings,
})

describe('a key reference to a command', () => {
  let clock: sinon.SinonFakeTimers

  const directory = temporaryDir()
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['performance'] })
  })

  afterEach(() => {
    clock.restore()
  })

  const reader = (command: SecretCommand, env: Record<string, string> = {}): KeyReader =>
    new KeyReader({ baseDir: directory.path, stateDir: directory.path, env, secrets: { vault: command } })

  const failure = (from: KeyReader, ref = 'command:vault', maxBytes?: number): Promise<string> =>
    from.read(ref, maxBytes).then(
      (key) => expect.fail(`read ${key}`),
      (error: unknown) =>
        isKeyError(error) ? `${error.code}: ${error.message}` : expect.fail(String(error)),
    )

  /** Prints how often it ran. */
  const counting = `const fs = require('fs'); fs.appendFileSync('runs', 'x'); console.log('key-' + fs.statSync('runs').size)`
  const runs = (): number => readFileSync(join(directory.path, 'runs')).length

  it('is what the program prints, without surrounding white space; it gets the environment and the directory', async () => {
    writeFileSync(join(directory.path, 'part'), 'b')
    const program = `console.log(' ' + process.env.PART + require('fs').readFileSync('part') + ' ')`
    expect(await reader(run(program), { PART: 'a' }).read('command:vault')).to.equal('ab')
  })

  it('gives its arguments to no shell', async () => {
    const command = run('console.log(process.argv[1])')
    const from = reader({ ...command, args: [...command.args, '$(id); echo'] })
    expect(await from.read('command:vault')).to.equal('$(id); echo')
  })

  it('runs once for reads at the same time and for `cache_ms`, then again', async () => {
    const from = reader(run(counting))
    const read = () => from.read('command:vault')
    expect(await Promise.all([read(), read(), read()])).to.deep.equal(['key-1', 'key-1', 'key-1'])
    clock.tick(299_999)
    expect(await read()).to.equal('key-1')
    clock.tick(1)
    expect(await read()).to.equal('key-2')
  })

  it('runs again for a secret that was refused, at most once a second', async () => {
    const from = reader(run(counting))
    for (let use = 0; use < 20; use += 1) {
      await from.read('command:vault')
      from.refuse('command:vault')
    }
    expect(runs()).to.equal(1)
    clock.tick(1000)
    expect(await from.read('command:vault')).to.equal('key-2')
    expect(await from.read('command:vault')).to.equal('key-2')
  })

  it('tries a program that failed again, at most once a second', async () => {
    const from = reader(run(`${counting}; process.exit(3)`))
    for (let use = 0; use < 5; use += 1) await failure(from)
    expect(runs()).to.equal(1)
    clock.tick(1000)
    await failure(from)
    expect(runs()).to.equal(2)
  })

  const secret = 'hunter2-hunter2'
  const failures: Record<string, [command: SecretCommand, reason: string]> = {
    'ends with an error': [run(`console.error('${secret}'); process.exit(4)`), 'ended with exit code 4'],
    'does not end': [
      run(`console.log('${secret}'); setInterval(() => {}, 1000)`, { timeout_ms: 300 }),
      'did not end within 300 ms',
    ],
    'is killed': [run(`process.kill(process.pid, 'SIGTERM')`), 'was ended by SIGTERM'],
    'does not exist': [{ ...run(''), command: './no-such-program' }, 'cannot be started (ENOENT)'],
    'prints nothing': [run('console.log()'), 'printed nothing'],
    'prints bytes': [
      run(`process.stdout.write(Buffer.from([255]))`),
      'printed something that is not UTF-8 text',
    ],
    'prints too much': [run(`console.log('${secret}'.repeat(10))`), 'printed more than 100 bytes'],
    'waits for an input': [
      run(`process.stdin.on('end', () => process.exit(5)).resume()`),
      'ended with exit code 5',
    ],
  }
  for (const [title, [command, reason]] of Object.entries(failures)) {
    it(`whose program ${title} is unavailable, and no message has its output`, async () => {
      const message = await failure(reader(command), 'command:vault', 100)
      expect(message).to.equal(`key_unreadable: the command of secrets.vault ${reason}`)
    })
  }

  it('leaves no program behind that its program started, if that holds the output open', async () => {
    const grandchild = `require('fs').writeFileSync('child', String(process.pid)); setInterval(() => {}, 1000)`
    const program = `const { spawn } = require('child_process')
      spawn(process.execPath, ['-e', ${JSON.stringify(grandchild)}], { stdio: ['ignore', 'inherit', 'inherit'] })`
    const message = await failure(reader(run(program, { timeout_ms: 1500 })))
    expect(message).to.include('did not end within 1500 ms')
    const pid = Number(readFileSync(join(directory.path, 'child'), 'utf8'))
    const isGone = () =>
      !existsSync(`/proc/${pid}`) || /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
    await until(isGone)
  })

  it('that names no command is an error that does not quote it', async () => {
    const from = reader(run(''))
    const expected = 'the reference names no command of `secrets`; accepted is command:NAME'
    expect(await failure(from, 'command:s3cret')).to.equal(`key_ref: ${expected}`)
    expect(from.fileError('command:toString')).to.equal(expected)
    expect(from.fileError('command:vault')).to.equal(undefined)
  })
})
