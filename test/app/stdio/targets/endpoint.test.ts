import { tmpdir } from 'node:os'
import { KeyReader } from '@svc/core/secret'
import { expect } from 'chai'
import { type StdioTarget, stdioTargetSchema } from 'svc-sdk/internal/stdio/targets/config'
import { StdioEndpoint } from 'svc-sdk/internal/stdio/targets/endpoint'
import { checkResponses } from 'svc-sdk/internal/stdio/targets/forward'
import { Launcher } from 'svc-sdk/internal/stdio/targets/launcher'
import { RpcChannel } from 'svc-sdk/internal/stdio/targets/rpc-channel'
import { keepingLogger } from '../../../support/logger.js'
import { scriptedTarget, until } from '../../../support/stdio-target.js'

function endpointOf(target: StdioTarget) {
  const logger = keepingLogger()
  const place = { baseDir: tmpdir(), stateDir: tmpdir(), substituted: [] }
  const endpoint = new StdioEndpoint({
    name: 'files',
    target,
    clock: { now: Date.now, monotonic: () => performance.now() },
    logger,
    client: { name: 'test', version: '1' },
    maxMessageBytes: 1_000,
    responseTimeoutMs: 1_000,
    launcher: new Launcher(target, { ...place, keys: new KeyReader({ ...place, env: {} }) }),
  })
  return { endpoint, logger }
}

describe('a command', () => {
  it('has the home directory in place of a tilde and of its variable, which clients write for a shell, at the start of paths alone', async () => {
    const place = { baseDir: '/srv', stateDir: tmpdir(), substituted: [] }
    const keys = new KeyReader({ ...place, env: {} })
    const target = stdioTargetSchema.parse({
      command: '/usr/bin/env',
      args: ['~/notes', `$\{HOME}/notes`, '~', '~ada/notes', 'a~/b', '--dir=~/notes'],
      env: { HOME: '/home/ada' },
      cwd: '~/work',
    })
    const { launch } = await new Launcher(target, { ...place, keys }).prepare()
    expect(launch.cwd).to.equal('/home/ada/work')
    expect(launch.args).to.deep.equal([
      ...['/home/ada/notes', '/home/ada/notes', '/home/ada'],
      ...['~ada/notes', 'a~/b', '--dir=~/notes'],
    ])
  })
})

describe('an endpoint of a server over stdio', () => {
  it('ends the process that does not respond, and not the one that has started since', async () => {
    const { endpoint } = endpointOf(stdioTargetSchema.parse(scriptedTarget()))
    const first = await endpoint.connection()
    first.kill('the test ends it')
    await first.ended
    const second = await endpoint.connection()
    const silent = new RpcChannel(
      () => undefined,
      () => undefined,
    )
    await checkResponses({ ...first, channel: silent }, 1)
    expect(await second.channel.ask('ping', {}, AbortSignal.timeout(30_000))).to.have.property('result')
    await checkResponses({ ...second, channel: silent }, 1)
    await second.ended
    await endpoint.close()
  })
})

describe('a closed endpoint of a server over stdio', () => {
  it('does not start the server that was about to start again', async () => {
    const { endpoint, logger } = endpointOf(
      stdioTargetSchema.parse({
        command: 'false',
        start: 'at_start',
        restart: { base_ms: 1_000, limit: 3 },
      }),
    )
    const kept = endpoint.keepRunning()
    const failures = () => logger.lines.filter(({ message }) => message === 'the MCP server did not start')
    // The third start is a second later.
    await until(() => failures().length === 2)
    await endpoint.close()
    await kept
    expect(failures()).to.have.length(2)
  })
})
