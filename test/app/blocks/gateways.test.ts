// Blocks in whole gateways that share a store: who refuses, who says so, and what is recorded.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Appender, bind, tokens } from '@svc/core'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { blockCommand } from 'svc-sdk/internal/cli/block'
import { runCommand } from '../../support/command.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { Running } from '../../support/gateway-process.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { type RedisServer, startRedis, until } from '../../support/redis.js'
import { connect1 } from '../../support/sdk-clients.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startSessionServer } from '../../support/tool-servers.js'
import { startUpstream } from '../../support/upstream.js'
import { startWebhook } from '../../support/webhook.js'
import { adminToken, trusting } from '../admin/rig.js'

const admin = { port: 0, tokenRef: 'env:SVC_ADMIN' } as const

/** The JSON of a response. */
// biome-ignore lint/suspicious/noExplicitAny: the tests say what it has
async function askAdmin(url: string, body: object | undefined): Promise<any> {
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  return (await fetch(url, { headers, ...init })).json()
}

describe('svc block', () => {
  const upstream = ofEachTest(() => startUpstream())
  const dir = ofEachTest(() => new TemporaryDir())

  const start = async (more: Partial<GatewaySettings>) => {
    const gateway = await startTestGateway({
      targets: { files: upstream.url, other: upstream.url },
      admin,
      env: { SVC_ADMIN: adminToken },
      ...more,
    })
    const { adminUrl = '' } = await gateway.handle.ready()
    const api = (path: string, body?: object) => askAdmin(`${adminUrl}/${path}`, body)
    return Object.assign(gateway, { api })
  }

  const block = async (gateway: TestGateway, ...args: string[]) => {
    const { adminUrl = '' } = await gateway.handle.ready()
    const env = { SVC_ADMIN_URL: adminUrl, SVC_ADMIN_TOKEN: adminToken }
    return runCommand((io) => blockCommand(io, env), args)
  }

  const statusOf = async (gateway: TestGateway, path = 'files/write@1') =>
    (await gateway.invoke(`/mcp/${path}`)).status

  const forTwoHours = ['--for', '2h', '--reason', 'stolen token'] as const

  for (const mode of ['enforce', 'observe'] as const)
    it(`leaves handshakes and the lists of other tools, at one server and at several, in mode ${mode}`, async () => {
      await using server = await startSessionServer('files', (one) => {
        for (const name of ['read', 'write']) one.registerTool(name, {}, () => ({ content: [] }))
      })
      await using gateway = await start({
        targets: { files: server.url, other: server.url },
        enforcement: { mode },
      })
      await block(gateway, '--tool', 'files/write', ...forTwoHours)
      for (const [path, expected] of [
        ['/mcp/files', ['read']],
        ['/mcp', ['files__read', 'other__read', 'other__write']],
      ] as const) {
        await using client = await connect1(`${gateway.url}${path}`)
        expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(expected)
      }
    })

  for (const adapter of ['redis', 'lmdb'] as const) {
    describe(`with ${adapter}`, () => {
      let redis: RedisServer | undefined
      let quotas: NonNullable<GatewaySettings['quotas']>

      beforeEach(async () => {
        redis = adapter === 'redis' ? await startRedis() : undefined
        quotas =
          redis === undefined
            ? { adapter: 'lmdb', dir: join(dir.path, 'quotas') }
            : { adapter: 'redis', redisUrl: redis.url }
      })

      afterEach(() => redis?.[Symbol.asyncDispose]())

      it('refuses in every gateway within a second, says so, records it, and is lifted everywhere', async () => {
        await using hook = await startWebhook()
        await using one = await start({ quotas, notices: [{ url: hook.url }] })
        await using two = await start({ quotas })
        const asked = performance.now()
        const { out, code } = await block(one, '--tool', 'files/w*', ...forTwoHours)
        expect(performance.now() - asked).to.be.lessThan(1_000)
        expect(code).to.equal(0)
        const [, id = ''] = /^blocked: tool files\/w\* until [\d-]+T[\d:.]+Z, block (\w+)$/m.exec(out) ?? []
        expect(out).to.match(/^applied by 2 of 2: /m)
        for (const gateway of [one, two]) {
          const response = (await (await gateway.invoke('/mcp/files/WRITE@1')).json()) as object
          expect(response).to.include({
            error: 'TOOL_NOT_ALLOWED',
            denial_type: 'blocks',
            denial_reason: `blocked:${id}`,
            sent: false,
          })
          expect(JSON.stringify(response)).to.not.contain('stolen')
          expect(gateway.records().at(-1)?.decided_by).to.deep.equal({
            stage: 'blocks',
            rule: `blocked:${id}`,
          })
          expect(await statusOf(gateway, 'files/read@1')).to.equal(200)
        }
        expect((await block(two, 'list')).out).to.match(
          new RegExp(`^${id} +tool +files/w\\* +\\S+ +the admin token +stolen token$`, 'm'),
        )
        const lifted = await block(two, 'lift', id)
        expect(lifted.out).to.match(/^lifted: tool files\/w\*, block \w+\napplied by 2 of 2: /)
        for (const gateway of [one, two]) expect(await statusOf(gateway)).to.equal(200)
        const tools = [one, two].map((gateway) =>
          gateway
            .records()
            .filter(({ tool }) => tool.startsWith('blocks/'))
            .map(({ tool, event }) => [tool, event?.['id']]),
        )
        expect(tools).to.deep.equal([[['blocks/set@1', id]], [['blocks/lift@1', id]]])
        await hook.until(1)
        expect(JSON.parse(hook.deliveries[0]?.body ?? '')).to.deep.include({ type: 'block.set' })
      })

      it('has a switch for a tool: off without an end and on again, in every gateway, if the policy lets operators edit', async () => {
        const home = join(dir.path, 'home')
        const edit = { ...admin, console: { edit: true } }
        const settings = { quotas, sec0Dir: join(home, 'state'), admin: edit }
        const turnOff = {
          server: 'files',
          tool: 'write',
          reason: 'the writes are wrong',
          policy_sha256: null,
        }
        let id = ''
        await using two = await start({ quotas })
        {
          await using one = await start(settings)
          expect(await one.api('api/policy/switch', { ...turnOff, policy_sha256: 'a' })).to.include({
            error: 'BAD_REQUEST',
          })
          expect(await one.api('api/policy/switch', { ...turnOff, tool: '..' })).to.include({
            error: 'BAD_REQUEST',
          })
          expect(await two.api('api/policy/switch', turnOff)).to.include({ error: 'TOOL_NOT_ALLOWED' })
          const { block: set, acknowledged } = await one.api('api/policy/switch', turnOff)
          expect(set).to.include({ kind: 'tool', pattern: 'files/write', until: null, by: 'the admin token' })
          expect(acknowledged).to.have.length(2)
          id = set.id
          for (const gateway of [one, two]) {
            expect(await statusOf(gateway)).to.equal(403)
            expect(await statusOf(gateway, 'files/read@1')).to.equal(200)
          }
        }
        await using one = await start(settings)
        expect(await statusOf(one)).to.equal(403)
        expect((await block(two, 'list')).out).to.match(
          new RegExp(`^${id} +tool +files/write +lifted +the admin token +the writes are wrong$`, 'm'),
        )
        const query = `server=files&tool=write&lift=${id}`
        const { access } = await one.api(`api/policy/switch?${query}`)
        expect(access).to.deep.equal([
          { caller: { tenant: 'acme', kind: 'anyone', name: '' }, before: `blocked:${id}`, after: null },
        ])
        expect((await block(two, 'lift', id, '--reason', 'they are right')).code).to.equal(0)
        for (const gateway of [one, two]) expect(await statusOf(gateway)).to.equal(200)
        const lifted = two.records().find(({ tool }) => tool === 'blocks/lift@1')
        expect(lifted?.event).to.include({ id, lifted_by: 'the admin token', lift_reason: 'they are right' })
      })

      it('names a gateway that was killed, and exits with 1', async () => {
        generateKeyFile(join(dir.path, 'key'))
        const policy = join(dir.path, 'policy.yaml')
        writeFileSync(
          policy,
          JSON.stringify({
            tenant: 'acme',
            port: 0,
            targets: {},
            audit: { gatewayName: 'gw', gatewayVersion: '1', signer: { keyRef: 'file://key' } },
            entitlements: 'open',
            quotas,
          }),
        )
        await using gateway = await start({ quotas })
        await using killed = new Running(['--policy', policy])
        await killed.line('listening')
        killed.child.kill('SIGKILL')
        await killed.exit
        const { out, code } = await block(gateway, '--server', 'files', ...forTwoHours)
        expect(out).to.match(/^applied by 1 of 2: /m)
        expect(out).to.match(
          new RegExp(`^NOT APPLIED by .* \\(${killed.child.pid}\\), silent for \\d s`, 'm'),
        )
        expect(code).to.equal(1)
        expect(await statusOf(gateway)).to.equal(403)
        expect(await statusOf(gateway, 'other/write@1')).to.equal(200)
      })
    })
  }

  it('keeps the last list while Redis is cut, and takes changes to a Redis that has lost everything', async () => {
    await using redis = await startRedis()
    const quotas = { adapter: 'redis', redisUrl: redis.url, failure_mode: 'local' } as const
    await using one = await start({ quotas })
    await using two = await start({ quotas })
    await block(one, '--server', 'files', ...forTwoHours)
    await redis.kill('SIGKILL')
    const { out, code } = await block(one, '--server', 'other', ...forTwoHours)
    expect(code).to.equal(1)
    expect(out).to.match(/^applied by 1 of 1: .*\nNOT SHARED: Redis/m)
    expect(await Promise.all([one, two].map((gateway) => statusOf(gateway)))).to.deep.equal([403, 403])
    expect(await statusOf(one, 'other/write@1')).to.equal(403)
    expect(await statusOf(two, 'other/write@1')).to.equal(200)
    await redis.restart()
    await until(async () => (await statusOf(two, 'other/write@1')) === 403)
    for (const gateway of [one, two]) expect(await statusOf(gateway)).to.equal(403)
  })

  it('is in force although the log cannot be written, and says that no record was made', async () => {
    let isFull = true
    const appender: Appender = {
      append: () => (isFull ? Promise.reject(new Error('ENOSPC')) : Promise.resolve()),
    }
    await using gateway = await start({
      audit: { gatewayName: 'gw', gatewayVersion: '1' },
      configure: (container) => bind(container, tokens.SvcAppender, { useValue: appender }),
    })
    const { out, code } = await block(gateway, '--server', 'files', ...forTwoHours)
    expect(code).to.equal(1)
    expect(out).to.match(/^NOT RECORDED: /m)
    isFull = false
    expect(await statusOf(gateway)).to.equal(403)
    expect(upstream.calls).to.deep.equal([])
  })

  it('holds after a restart of a gateway without a shared store, and in observe mode', async () => {
    const own = { sec0Dir: join(dir.path, 'state'), enforcement: { mode: 'observe' } } as const
    {
      await using gateway = await start(own)
      expect((await block(gateway, '--server', 'fil*', ...forTwoHours)).code).to.equal(0)
    }
    await using gateway = await start(own)
    expect(await statusOf(gateway)).to.equal(403)
  })

  it('ends calls in progress and calls that wait for an approval, of the caller that it names', async () => {
    await using issuer = await TestIssuer.start()
    const held = heldUpstream()
    await using slow = await startUpstream(held.response)
    await using gateway = await start({
      ...trusting(issuer),
      targets: { files: slow.url },
      admin: { ...admin, roles: { reviewer: ['approver'] } },
      rules: [{ name: 'waits', tools: ['files/drop'], then: 'escalate' }],
      security: { side_effects: { human_escalation: { approval_strategy: 'single_approver' } } },
    })
    const bearer = async (email: string) => ({ authorization: `Bearer ${await issuer.sign({ email })}` })
    const [mallory, ann] = [await bearer('Mallory@acme.example'), await bearer('ann@acme.example')]
    const calls = [
      gateway.invoke('/mcp/files/read@1', {}, mallory),
      gateway.invoke('/mcp/files/drop@1', {}, { ...mallory, 'x-escalation-wait': '60' }),
    ]
    const others = gateway.invoke('/mcp/files/read@1', {}, ann)
    const streams = [await held.next(), await held.next()]
    await until(async () => gateway.records().some(({ tool }) => tool === 'escalations/open@1'))
    await block(gateway, '--principal', 'mallory@*', ...forTwoHours)
    for (const call of calls) expect(await (await call).json()).to.have.property('error', 'TOOL_NOT_ALLOWED')
    for (const stream of streams) stream.end('done')
    expect((await others).status).to.equal(200)
    expect((await gateway.invoke('/mcp/files/list@1', {}, mallory)).status).to.equal(403)
  })

  it('says that a block is on nothing that the gateway knows', async () => {
    await using gateway = await start({
      authn: {
        oidc: { issuer: 'https://id.example.com/', audience: 'gw', jwks_uri: 'https://id.example.com/k' },
      },
      entitlements: {
        default_plan: 'p',
        plans: { p: {} },
        tenants: {
          acme: {
            plan: 'p',
            allowlist: ['files/read'],
            roles: { support: { allowlist: ['*'] } },
            users: { 'ann@acme.example': { allowlist: ['*'] } },
          },
        },
      },
    })
    for (const [kind, pattern, warning] of [
      ['--server', 'fils', 'the policy has no such server; did you mean "files"?'],
      ['--server', 'FILES', undefined],
      ['--tool', 'files/raed', 'no tool of this name is known; did you mean "files/read"?'],
      ['--tool', '*/read', undefined],
      ['--principal', 'support', 'this is the name of a role; blocks are of users, subjects and clients'],
      ['--principal', 'ann@*', undefined],
      [
        '--principal',
        'anna@acme.example',
        'the policy names nobody like this, and nobody like this called in the last 24 hours',
      ],
    ] as const) {
      const { out, code } = await block(gateway, kind, pattern, ...forTwoHours)
      expect(code, out).to.equal(0)
      expect(/^WARNING: (.*)$/m.exec(out)?.[1], pattern).to.equal(warning)
    }
  })

  for (const [args, message] of [
    [['--tool', 'a', '--server', 'b', ...forTwoHours], 'give one of --principal, --tool and --server'],
    [[...forTwoHours], 'give one of --principal, --tool and --server'],
    [['--tool', 'a', '--reason', 'r'], '--for is missing'],
    [['--tool', 'a', '--for', '2h'], '--reason is missing'],
    [['--tool', 'a', '--for', '31d', '--reason', 'r'], 'expected a time such as 30s'],
    [['--server', 'a@b', ...forTwoHours], 'BAD_REQUEST: pattern: '],
    [['--server', 'files/*', ...forTwoHours], 'BAD_REQUEST: pattern: a server is given by its name'],
    [['--server', 'files/**', ...forTwoHours], 'BAD_REQUEST: pattern: a server is given by its name'],
    [['--principal', '\u200b.', ...forTwoHours], 'BAD_REQUEST: pattern: it has no character'],
    [['lift', 'nosuch'], 'TARGET_NOT_FOUND: There is no such block'],
  ] as const)
    it(`refuses ${args.join(' ')}`, async () => {
      await using gateway = await start({})
      const { err, code } = await block(gateway, ...args)
      expect(err).to.contain(message)
      expect(code).to.equal(2)
    })
})
