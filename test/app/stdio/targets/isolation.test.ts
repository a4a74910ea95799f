import { ElicitRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import type { TestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { postMcp } from '../../../support/mcp-post.js'
import { connect, isAlive, say, scriptedTarget, until, withStdio } from '../../../support/stdio-target.js'

describe('a process of one MCP session', () => {
  const target = scriptedTarget('', { isolate: 'session' })

  it('is not shared, and ends with the session', async () => {
    await withStdio(target, async (gateway) => {
      await using one = await connect(gateway)
      const other = await connect(gateway)
      const pid = Number(await say(other, 'pid'))
      expect(Number(await say(one, 'pid'))).to.not.equal(pid)
      await other[Symbol.asyncDispose]()
      await until(() => !isAlive(pid))
    })
  })

  it('may send requests and log messages to its client', async () => {
    await withStdio(target, async (gateway) => {
      const logged: unknown[] = []
      await using client = await connect(gateway, {
        capabilities: { elicitation: {} },
        prepare: (unconnected) => {
          unconnected.setRequestHandler(ElicitRequestSchema, async () => ({
            action: 'accept',
            content: { name: 'Ada' },
          }))
          unconnected.setNotificationHandler(
            LoggingMessageNotificationSchema,
            ({ params }) => void logged.push(params.data),
          )
        },
      })
      expect(JSON.parse(await say(client, 'ask'))).to.deep.equal({
        action: 'accept',
        content: { name: 'Ada' },
      })
      await say(client, 'changed')
      expect(logged).to.deep.equal(['from somebody'])
      expect(client.getServerCapabilities()).to.have.property('logging')
    })
  })

  it('ends the session when it exits', async () => {
    await withStdio(target, async (gateway) => {
      const client = await connect(gateway)
      await say(client, 'exit').catch(() => undefined)
      const after = await say(client, 'echo').catch((error: unknown) => String(error))
      expect(after).to.include('There is no such session')
      await client.close()
    })
  })

  it('is refused to a client whose handshake the server refuses, and to no other client', async () => {
    await withStdio({ ...target, restart: { limit: 1 } }, async (gateway) => {
      const refused = await postMcp(`${gateway.url}/mcp/files`, {
        id: 1,
        method: 'initialize',
        params: { capabilities: 'none' },
      })
      expect(await refused.text()).to.include('neither initialize nor server/discover with a result')
      await using client = await connect(gateway)
      expect(await say(client, 'echo', { said: 'hi' })).to.equal('hi')
    })
  })

  it('counts towards a limit, and no longer after its client has left', async () => {
    await withStdio({ ...target, max_processes: 1 }, async (gateway) => {
      const gone = await connect(gateway)
      const pid = Number(await say(gone, 'pid'))
      const refused = await connect(gateway).catch((error: unknown) => String(error))
      expect(refused).to.include('has as many processes as it may have, and all are in use')
      await gone.close()
      await using client = await connectInTime(gateway)
      expect(Number(await say(client, 'pid'))).to.not.equal(pid)
      await until(() => !isAlive(pid))
    })
  })
})

/** The gateway learns that a client has left when its connection closes. */
async function connectInTime(gateway: TestGateway): Promise<Awaited<ReturnType<typeof connect>>> {
  for (;;) {
    const client = await connect(gateway).catch(() => undefined)
    if (client !== undefined) return client
  }
}

describe('a process of one caller', () => {
  let issuer: TestIssuer
  before(async () => {
    issuer = await TestIssuer.start()
  })
  after(() => issuer[Symbol.asyncDispose]())

  it('is shared only by the sessions of that caller', async () => {
    const bearer = async (claims: Record<string, unknown> = {}) => ({
      headers: { authorization: `Bearer ${await issuer.sign(claims)}` },
    })
    await withStdio(
      scriptedTarget('', { isolate: 'principal' }),
      async (gateway) => {
        await using first = await connect(gateway, await bearer())
        await using second = await connect(gateway, await bearer({ jti: 'another token' }))
        await using bob = await connect(gateway, await bearer({ sub: 'bob', email: 'bob@example.com' }))
        const pids = await Promise.all([first, second, bob].map((client) => say(client, 'pid')))
        expect(pids[0]).to.equal(pids[1])
        expect(pids[2]).to.not.equal(pids[0])
      },
      { authn: { oidc: issuer.oidc } },
    )
  })

  it('is stopped for the process of another caller, and starts again in the same session', async () => {
    const one = { headers: { authorization: `Bearer ${await issuer.sign()}` } }
    const bob = await issuer.sign({ sub: 'bob', email: 'bob@example.com' })
    await withStdio(
      scriptedTarget('', { isolate: 'principal', max_processes: 1 }),
      async (gateway) => {
        const call = async (authorization: string) => {
          const response = await gateway.invoke('/mcp/files/pid@unversioned', {}, { authorization })
          return (await response.json()) as { content: { text: string }[] }
        }
        const first = await call(one.headers.authorization)
        const other = await call(`Bearer ${bob}`)
        const again = await call(one.headers.authorization)
        const pids = [first, other, again].map((response) => Number(response.content[0]?.text))
        expect(new Set(pids).size).to.equal(3)
        await until(() => pids.filter(isAlive).length === 1)
      },
      { authn: { oidc: issuer.oidc } },
    )
  })
})

describe('a process that several clients share', () => {
  it('does not offer logging, and its requests and log messages do not reach clients', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      const heard: unknown[] = []
      await using client = await connect(gateway, {
        capabilities: { elicitation: {} },
        prepare: (unconnected) => {
          unconnected.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
        },
      })
      expect(client.getServerCapabilities()).to.not.have.property('logging')
      expect(JSON.parse(await say(client, 'ask'))).to.include({ code: -32601 })
      await say(client, 'changed')
      expect(heard).to.not.include('notifications/message')
    })
  })
})

describe('a process that tenants share', () => {
  it('serves the call of one tenant while another one has as many long calls as it likes', async () => {
    await using issuer = await TestIssuer.start()
    await withStdio(
      scriptedTarget('', { max_concurrent: 4 }),
      async (gateway) => {
        const call = async (tool: string, claims: Record<string, string>) => {
          const authorization = `Bearer ${await issuer.sign(claims)}`
          const response = await gateway.invoke(`/mcp/files/${tool}@unversioned`, {}, { authorization })
          const { content } = (await response.json()) as { content: { text: string }[] }
          return content[0]?.text
        }
        const callers = ['ada', 'bob', 'ada', 'bob', 'ada', 'bob', 'ada', 'bob']
        const long = callers.map((sub) => call('hold', { org: 'greedy', sub }))
        const small = { org: 'small', sub: 'cem' }
        // Three quarters of the process, and the call that counts them.
        await until(async () => (await call('running', small)) === '4')
        let isOver = false
        const ended = Promise.all(long).finally(() => {
          isOver = true
        })
        while (!isOver) await call('release', small)
        expect(await ended).to.deep.equal(callers.map(() => 'released'))
      },
      { authn: { oidc: issuer.oidc } },
    )
  })
})
