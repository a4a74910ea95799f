// A sample of `npm run chaos:hosts`: each fault once. A failure names the seed, which repeats its choices.
import { execFile, spawn, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { endWithRunner } from '../../support/child-lifetime.js'
import { faults, runExperiment } from './experiment.js'

const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` }
const hasProxy = spawnSync('haproxy', ['-v'], { env }).error === undefined

describe('the example of several hosts', function () {
  this.timeout(240_000)

  before(function () {
    if (hasProxy) return
    process.stderr.write('HAProxy is not installed (apt-get install haproxy): its example is not tested\n')
    this.skip()
  })

  it('loses, doubles and exceeds nothing while hosts are killed and drained, Redis fails over, a policy is rolled out', async () => {
    await runExperiment(faults, randomInt(2 ** 30))
  })

  it('starts with one command, serves the calls that it prints, and starts gateways again until they serve', async () => {
    const fleet = createRequire(import.meta.url).resolve('@svc/example-several-hosts/fleet')
    const child = spawn(process.execPath, [join(dirname(fleet), 'start.js')], {
      env: { ...env, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(endWithRunner(child), 'exit')
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const linesUntil = async (last: RegExp) => {
      const read: string[] = []
      for (;;) {
        const { value, done } = await lines.next()
        if (done === true) throw new Error(`it ended: ${read.join('\n')}`)
        read.push(value)
        if (last.test(value)) return read
      }
    }
    const shown = (await linesUntil(/Ctrl-C/)).map((line) => line.trim())
    const run = async (start: string) => {
      const command = shown.find((line) => line.startsWith(start)) ?? ''
      return (await promisify(execFile)('sh', ['-ec', command], { env })).stdout
    }
    expect(await run('curl')).to.equal('{"number":1}')
    await run('kill -KILL')
    await linesUntil(/^host-1 runs again/)
    expect(await run('curl')).to.equal('{"number":2}')
    const edited = shown.find((line) => line.startsWith('$EDITOR')) ?? ''
    const [, policy = '', pid = ''] = /^\$EDITOR (\S+) && kill -HUP (\d+)$/.exec(edited) ?? []
    const text = readFileSync(policy, 'utf8')
    writeFileSync(policy, `${text}mistake: 1\n`)
    process.kill(Number(pid), 'SIGKILL')
    await linesUntil(/^host-3 ended with 1: .*mistake/)
    writeFileSync(policy, text)
    await linesUntil(/^host-3 runs again/)
    // Under npm, one Ctrl-C arrives twice.
    for (let time = 0; time < 2; time++) child.kill('SIGINT')
    const kept = /Logs and keys stay in (\S+)\./.exec((await linesUntil(/^Ended/)).at(-1) ?? '')?.[1] ?? ''
    await ended
    expect(readdirSync(kept)).to.include.members(['host-1', 'host-2', 'host-3', 'output'])
    rmSync(kept, { recursive: true })
  })
})
