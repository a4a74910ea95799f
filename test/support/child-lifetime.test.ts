import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'

/** Starts a child, with this one's output for its own, and says so. */
const runner = `
  import { spawn } from 'node:child_process'
  import { endWithRunner } from '${import.meta.resolve('./child-lifetime.js')}'
  const stdio = ['ignore', 'inherit', 'ignore']
  for (const seconds of ['0', '300']) {
    const child = endWithRunner(spawn('sleep', [seconds], { stdio }))
    if (seconds === '0') await new Promise((resolve) => child.once('exit', resolve))
  }
  process.stdout.write('started')
  setInterval(() => undefined, 1_000)`

describe('a child that ends with its runner', () => {
  it('ends when the process that started it is killed', async function () {
    this.timeout(60_000)
    const child = spawn(process.execPath, ['--input-type=module', '-e', runner], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = await once(child.stdout, 'data')
    expect(String(said)).to.equal('started')
    // The pipe closes with the last process that holds it.
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    expect(await closed).to.deep.equal([null, 'SIGKILL'])
  })

  it('does not keep the process that started it', async function () {
    this.timeout(60_000)
    const short = runner.replace(/setInterval.*/, 'process.exitCode = 7').replace("'300'", "'0'")
    const child = spawn(process.execPath, ['--input-type=module', '-e', short], { stdio: 'ignore' })
    expect(await once(child, 'close')).to.deep.equal([7, null])
  })
})
