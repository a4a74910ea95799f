import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bind, tokens } from '@svc/core'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { DependencyContainer } from 'tsyringe'
import { Running } from '../../../support/gateway-process.js'
import { connect, isAlive, say, scriptedTarget, until, withStdio } from '../../../support/stdio-target.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'

/** The message of the error that a promise rejects with. */
const messageOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no error',
    (error: unknown) => String(error),
  )

/** The policy of a reload; everything else comes from the options. */
const policyOf = (targets: object): Record<string, unknown> => ({ targets })

describe('the process of a target', () => {
  it('starts with the first call, or with the gateway', async () => {
    await withStdio(scriptedTarget(), async ({ log }) => {
      expect(log.lines.map(({ message }) => message)).to.not.include('the MCP server has started')
    })
    await withStdio(scriptedTarget('', { start: 'at_start' }), async ({ log }) => {
      await until(() => log.lines.some(({ message }) => message === 'the MCP server has started'))
    })
  })

  it('ends with the gateway, as do its child processes', async () => {
    const pids: number[] = []
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      for (const tool of ['pid', 'fork', 'escape']) pids.push(Number(await say(client, tool)))
      expect(pids.every(isAlive)).to.equal(true)
    })
    await until(() => !pids.some(isAlive))
  })

  it('ends with a gateway that is killed, as do its child processes', async () => {
    using home = new TemporaryDir()
    generateKeyFile(join(home.path, 'key'))
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { files: scriptedTarget() },
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1',
        signer: { keyRef: `file://${join(home.path, 'key')}` },
      },
      quotas: { adapter: 'memory' },
      entitlements: { default_plan: 'all', plans: { all: { allowlist: ['*'] } }, tenants: {} },
      authn: { allowUnauthenticated: true },
    }
    writeFileSync(join(home.path, 'policy.yaml'), JSON.stringify(policy))
    await using gateway = new Running(['--policy', join(home.path, 'policy.yaml')])
    const { url = '' } = await gateway.line('listening')
    const client = await connect({ url })
    const pids: number[] = []
    for (const tool of ['pid', 'fork', 'escape']) pids.push(Number(await say(client, tool)))
    gateway.child.kill('SIGKILL')
    await until(() => !pids.some(isAlive))
    await client.close()
  })

  it('keeps running after a reload with the same command, and ends after one without it', async () => {
    const target = scriptedTarget()
    await withStdio(target, async (gateway) => {
      const client = await connect(gateway)
      const pid = Number(await say(client, 'pid'))
      await gateway.handle.reload(policyOf({ files: target }))
      expect(Number(await say(client, 'pid'))).to.equal(pid)
      await gateway.handle.reload(policyOf({ files: scriptedTarget('', { env: { LEVEL: 'new' } }) }))
      await until(() => !isAlive(pid))
      await client.close()
      await using after = await connect(gateway)
      expect(JSON.parse(await say(after, 'env'))).to.have.property('LEVEL', 'new')
    })
  })

  it('starts again without a call if it starts with the gateway', async () => {
    await withStdio(scriptedTarget('', { start: 'at_start' }), async (gateway) => {
      const started = () =>
        gateway.log.lines.filter(({ message }) => message === 'the MCP server has started')
      await until(() => started().length === 1)
      process.kill(Number(started()[0]?.fields['pid']), 'SIGKILL')
      await until(() => started().length === 2)
    })
  })

  it('is named by /readyz while it is not running', async () => {
    const restart = { base_ms: 0, limit: 2 }
    await withStdio(scriptedTarget('exit', { start: 'at_start', restart }), async (gateway) => {
      const readiness = async () => {
        const response = await fetch(`${gateway.url}/readyz`)
        expect(response.status).to.equal(200)
        return JSON.stringify(await response.json())
      }
      await until(() => gateway.log.lines.some(({ message }) => message === 'the MCP server did not start'))
      expect(await readiness()).to.include('the MCP server \\"files\\", which starts with the gateway')
      const repaired = scriptedTarget('', { start: 'at_start' })
      await gateway.handle.reload(policyOf({ files: repaired }))
      await until(async () => !(await readiness()).includes('files'))
    })
  })

  it('is stopped after the idle time of the policy, and starts again with the next call', async () => {
    await withStdio(scriptedTarget('', { idle_ms: 50 }), async (gateway) => {
      const pid = async () => {
        const response = (await (await gateway.invoke('/mcp/files/pid@3.1.0')).json()) as {
          content: { text: string }[]
        }
        return Number(response.content[0]?.text)
      }
      const first = await pid()
      await until(() => !isAlive(first))
      expect(await pid()).to.not.equal(first)
    })
  })

  it('starts again after it exited in the middle of a call, which is reported as unreachable', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      const first = Number(await say(client, 'pid'))
      const survivor = Number(await say(client, 'fork'))
      expect(await messageOf(say(client, 'exit'))).to.include('The MCP server "files" has ended.')
      const second = Number(await say(client, 'pid'))
      expect(second).to.not.equal(first)
      await until(() => !isAlive(survivor))
      const failed = gateway.records().find((record) => Reflect.get(record, 'tool') === 'exit@3.1.0')
      expect(failed).to.include({ status: 'error', error: 'UPSTREAM_UNREACHABLE' })
    })
  })

  it('waits longer after each failure, and stays stopped at the limit; only the log has the reason', async () => {
    process.env['SVC_TEST_SECRET'] = 'the-secret'
    const env = { TOKEN: 'env:SVC_TEST_SECRET' }
    const restart = { base_ms: 0, limit: 3 }
    const counts: string[] = []
    const configure = (container: DependencyContainer): void => {
      bind(container, tokens.Meter, { useValue: { count: (name) => counts.push(name) } })
    }
    try {
      await withStdio(
        scriptedTarget('exit', { env, restart }),
        async (gateway) => {
          const call = async () => (await gateway.invoke('/mcp/files/echo@1')).text()
          expect(await call()).to.include('The MCP server \\"files\\" is not running."')
          await call()
          await call()
          expect(await call()).to.include(
            '3 starts failed in a row, and the next is after a reload of the policy',
          )
          await gateway.handle.reload(policyOf({ files: scriptedTarget('exit', { env, restart }) }))
          expect(await call()).to.include('is not running."')
          const lines = JSON.stringify(gateway.log.lines)
          expect(lines).to.include('cannot find [TOKEN]').and.not.include('the-secret')
          expect(lines).to.include('"reason":"it exited with code 4"')
          expect(counts.filter((name) => name === 'svc_stdio_server_failures_total')).to.have.length(4)
        },
        { configure },
      )
    } finally {
      delete process.env['SVC_TEST_SECRET']
    }
  })

  it('is reported as not running if its command is not found, which only the log names', async () => {
    await withStdio(scriptedTarget('', { command: 'no-such-program' }), async (gateway) => {
      const response = await gateway.invoke('/mcp/files/echo@1')
      expect(await response.text())
        .to.include('is not running')
        .and.not.include('no-such-program')
      expect(JSON.stringify(gateway.log.lines)).to.include('its command no-such-program is not found')
    })
  })

  it('is ended if it does not complete the handshake in time', async () => {
    for (const mode of ['silent', 'rubbish']) {
      await withStdio(scriptedTarget(mode, { start_timeout_ms: 300 }), async (gateway) => {
        const response = await gateway.invoke('/mcp/files/echo@1')
        expect(response.status).to.equal(502)
        expect(await response.text()).to.include('is not running')
        expect(JSON.stringify(gateway.log.lines)).to.include(
          'it did not complete the handshake within 300 ms',
        )
      })
    }
  })

  it('may take a long time to start', async () => {
    using home = new TemporaryDir()
    const ready = join(home.path, 'ready')
    await withStdio(scriptedTarget(`wait=${ready}`), async (gateway) => {
      const response = gateway.invoke('/mcp/files/echo@3.1.0', { said: 'at last' })
      await until(() => existsSync(`${ready}.asked`))
      writeFileSync(ready, '')
      expect(await (await response).text()).to.include('at last')
    })
  })

  it('may print lines that are not messages', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      expect(await say(client, 'rubbish')).to.equal('after rubbish')
      expect(JSON.stringify(gateway.log.lines)).to.include('(standard output, no message) a banner')
    })
  })

  it('may flood standard error, of which the log gets few lines and no secrets', async () => {
    process.env['SVC_TEST_SECRET'] = 'the-secret'
    try {
      await withStdio(scriptedTarget('', { env: { TOKEN: 'env:SVC_TEST_SECRET' } }), async (gateway) => {
        await using client = await connect(gateway)
        expect(await say(client, 'flood')).to.equal('after flood')
        const lines = gateway.log.lines.filter(({ fields }) => 'stderr' in fields)
        expect(lines.length).to.be.greaterThan(0).and.lessThan(1_000)
        expect(lines[0]?.fields).to.include({ server: 'files', stderr: 'line 0 of [TOKEN]' })
        expect(JSON.stringify(lines)).to.not.include('the-secret')
      })
    } finally {
      delete process.env['SVC_TEST_SECRET']
    }
  })

  it('does not write values of the environment to the log', async () => {
    process.env['SVC_TEST_SECRET'] = 'the-secret'
    const reference = `\${env:SVC_TEST_SECRET}`
    const { args = [], ...target } = scriptedTarget()
    const substituted = [...args, `--token=${reference}`]
    try {
      for (const TOKEN of [reference, `Bearer ${reference}`]) {
        await withStdio({ ...target, args: substituted, env: { TOKEN } }, async (gateway) => {
          await using client = await connect(gateway)
          const { TOKEN: given } = JSON.parse(await say(client, 'env')) as { TOKEN: string }
          expect(given).to.equal(TOKEN.replace(reference, 'the-secret'))
          await say(client, 'flood')
          const [line] = gateway.log.lines.filter(({ fields }) => 'stderr' in fields)
          expect(line?.fields).to.have.property('stderr', `line 0 of [${TOKEN}]`)
          expect(JSON.stringify(gateway.log.lines)).to.not.include('the-secret')
        })
      }
    } finally {
      delete process.env['SVC_TEST_SECRET']
    }
  })

  it('gets the text of a file as an argument, which the log shows as its reference', async () => {
    using home = new TemporaryDir()
    const path = join(home.path, 'argument')
    writeFileSync(path, '--token=the-secret\n')
    const reference = `\${file://${path}}`
    const { args = [], ...target } = scriptedTarget()
    const options = { targets: { files: { ...target, args: [...args, reference] } }, sec0Dir: home.path }
    await withStdio(
      options.targets.files,
      async (gateway) => {
        await using client = await connect(gateway)
        expect(JSON.parse(await say(client, 'argv'))).to.deep.equal(['', '--token=the-secret'])
        await say(client, 'flood')
        const [line] = gateway.log.lines.filter(({ fields }) => 'stderr' in fields)
        expect(line?.fields).to.have.property('stderr', `line 0 of [${reference}]`)
        expect(JSON.stringify(gateway.log.lines)).to.not.include('the-secret')
      },
      options,
    )
  })

  it('is ended for a line over the limit', async () => {
    const server = { maxResponseBytes: 1_000_000 }
    await withStdio(
      scriptedTarget(),
      async (gateway) => {
        await using client = await connect(gateway)
        expect(await messageOf(say(client, 'long'))).to.include('The response is over 1000000 bytes')
        expect(JSON.stringify(gateway.log.lines)).to.include('a line of more than 1000000 bytes')
        expect(await say(client, 'echo', { said: 'again' })).to.equal('again')
      },
      { server },
    )
  })

  it('gets a ping when a call takes too long, and is ended if it does not respond', async () => {
    const server = { upstreamTimeoutMs: 1_000 }
    await withStdio(
      scriptedTarget(),
      async (gateway) => {
        await using client = await connect(gateway)
        const first = await say(client, 'pid')
        expect(await messageOf(say(client, 'hang'))).to.include(
          'The upstream did not respond within 1 s; server.upstreamTimeoutMs raises that limit.',
        )
        expect(await say(client, 'pid')).to.equal(first)
        await messageOf(say(client, 'freeze'))
        await until(() => gateway.log.lines.some(({ message }) => message === 'the MCP server has exited'))
        expect(isAlive(Number(first))).to.equal(false)
        expect(await say(client, 'pid')).to.not.equal(first)
      },
      { server },
    )
  })

  it('serves a limited number of requests at a time; others wait', async () => {
    await withStdio(scriptedTarget('', { max_concurrent: 2 }), async (gateway) => {
      await using client = await connect(gateway)
      const held = say(client, 'hold')
      const echoes = await Promise.all([1, 2, 3].map((said) => say(client, 'echo', { said })))
      expect(echoes).to.deep.equal(['1', '2', '3'])
      expect(Number(await say(client, 'release'))).to.equal(2)
      expect(await held).to.equal('released')
    })
  })
})
