// `svc stdio` as the process that a client starts: its input and output, its end, and the processes that it leaves.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { endWithRunner } from '../../support/child-lifetime.js'
import { StdioGateway } from '../../support/stdio-gateway.js'
import { isAlive, until } from '../../support/stdio-target.js'
import { files, open, scripted } from './stdio-servers.js'

describe('svc stdio as a process', function () {
  this.timeout(60_000)

  /** Started without a client; its output is kept. */
  function start(gateway: StdioGateway, args: readonly string[]) {
    const { command, args: all } = gateway.command(args)
    const child = endWithRunner(spawn(command, all, { stdio: 'pipe' }))
    const kept = { out: '', err: '' }
    child.stdout.on('data', (piece: Buffer) => {
      kept.out += piece.toString()
    })
    child.stderr.on('data', (piece: Buffer) => {
      kept.err += piece.toString()
    })
    return { child, kept, exit: once(child, 'close').then(([code]) => code as number | null) }
  }

  const request = (id: number, method: string, params = {}) =>
    `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
  const hello = request(1, 'initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  })

  it('responds to all requests before the end of its input, exits with 0, and leaves no process', async () => {
    using gateway = new StdioGateway(open)
    const { child, kept, exit } = start(gateway, files())
    child.stdin.end(
      hello + request(2, 'tools/call', { name: 'pid' }) + request(3, 'tools/call', { name: 'fork' }),
    )
    expect(await exit).to.equal(0)
    const responses = kept.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(responses.map(({ id }) => id)).to.have.members([1, 2, 3])
    const pids = responses.flatMap(({ result }) => result.content ?? []).map(({ text }) => Number(text))
    expect(pids).to.have.length(2)
    await until(() => !pids.some(isAlive))
  })

  it('exits with 0 after SIGTERM during a call, and leaves no process', async () => {
    using gateway = new StdioGateway(`${open}server: { drainMs: 100 }\n`)
    const { child, kept, exit } = start(gateway, files())
    child.stdin.write(hello + request(2, 'tools/call', { name: 'pid' }))
    await until(() => kept.out.split('\n').length > 2)
    child.stdin.write(request(3, 'tools/call', { name: 'hang' }))
    child.kill('SIGTERM')
    expect(await exit).to.equal(0)
    const pid = Number(JSON.parse(kept.out.trim().split('\n')[1] ?? '').result.content[0].text)
    await until(() => !isAlive(pid))
  })

  it('leaves no process when it is killed', async () => {
    using gateway = new StdioGateway(open)
    const { child, kept, exit } = start(gateway, files())
    child.stdin.write(hello + request(2, 'tools/call', { name: 'pid' }))
    await until(() => kept.out.split('\n').length > 2)
    const pid = Number(JSON.parse(kept.out.trim().split('\n')[1] ?? '').result.content[0].text)
    child.kill('SIGKILL')
    await exit
    await until(() => !isAlive(pid))
  })

  it('responds to an invalid line with an error, and keeps the output of modules out of its own', async () => {
    using gateway = new StdioGateway(`${open}plugins: [{ use: ./loud.js }]\nloud: {}\n`)
    writeFileSync(join(gateway.home, 'package.json'), '{"type":"module"}')
    writeFileSync(
      join(gateway.home, 'loud.js'),
      `import { definePlugin } from '${import.meta.resolve('@svc/core')}'
import { z } from '${import.meta.resolve('zod')}'
export default definePlugin({
name: 'loud', version: '1.0.0', core: '^1.0.0', schema: z.strictObject({}),
create: () => ({ handle: (_call, next) => { console.log('loud'); process.stdout.write('louder'); return next() } }),
})
`,
    )
    const { child, kept, exit } = start(gateway, files())
    child.stdin.end(`no message\n${hello}`)
    expect(await exit, kept.err).to.equal(0)
    const [error, response] = kept.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(error.error.code).to.equal(-32700)
    expect(response.result.serverInfo.name).to.equal('scripted')
    expect(kept.err).to.contain('loud').and.contain('louder')
  })

  it('names the mistakes of a policy, with status 1 and nothing on its output', async () => {
    using gateway = new StdioGateway('entitlements: closed\n')
    const { child, kept, exit } = start(gateway, files())
    child.stdin.end(hello)
    expect(await exit).to.equal(1)
    expect(kept.out).to.equal('')
    expect(kept.err).to.match(/policy\.yaml:4:\d+ entitlements: /)
  })

  it('requires a name for a server whose command does not contain one', async () => {
    using gateway = new StdioGateway(open)
    const { child, kept, exit } = start(gateway, ['--', 'node', scripted])
    child.stdin.end()
    expect(await exit).to.equal(1)
    expect(kept.err).to.contain('--name')
  })
})
