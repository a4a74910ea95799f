// What callers with labels may not do, at two gateways with one Redis: who gets a label, and the ways round it.
import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { postMcp } from '../../../support/mcp-post.js'
import { event, events, type HttpResponse, json, result, serverOf } from '../../../support/mcp-server.js'
import { ofSuite } from '../../../support/parts.js'
import { startRedis } from '../../../support/redis.js'
import { signalled } from '../../../support/signalled.js'

const flows = {
  labels: [{ label: 'private', tools: ['files/read*'] }],
  sinks: { external: ['mail/*'] },
  deny_flow: ['private -> external'],
  effect: 'deny',
}
const secret = 'token ghp_0123456789abcdefghijABCDEFGHIJ012345'

describe('flows of labelled data', function () {
  this.timeout(60_000)
  let servers: Awaited<ReturnType<typeof serverOf>>[] = []
  let gateways: TestGateway[] = []
  let alice: string
  let bob: string
  let respond: HttpResponse

  const redis = ofSuite(() => startRedis())
  const issuer = ofSuite(() => TestIssuer.start())
  before(async () => {
    alice = await issuer.sign({ sub: 'alice', tenant: 'acme' })
    bob = await issuer.sign({ sub: 'bob', tenant: 'acme' })
  })
  beforeEach(() => {
    respond = (message, response) => json(response, result(message))
  })
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) await gateway[Symbol.asyncDispose]()
    for (const { upstream } of servers.splice(0)) await upstream[Symbol.asyncDispose]()
    await redis.send('FLUSHALL')
  })

  async function start(
    section: object = flows,
    more: object = {},
  ): Promise<readonly [TestGateway, TestGateway]> {
    servers = await Promise.all([1, 2, 3].map(() => serverOf((...parts) => respond(...parts))))
    const [files, mail, notes] = servers.map(({ upstream }) => upstream.url)
    const settings = {
      targets: { files, mail, notes },
      quotas: { adapter: 'redis', redisUrl: redis.url },
      authn: { oidc: issuer.oidc },
      protections: { flows: section },
      ...more,
    } as never
    gateways = [await startTestGateway(settings), await startTestGateway(settings)]
    return gateways as never
  }

  /** The reason of the denial of one call over the stateless revision; null if it was served. */
  async function called(
    gateway: TestGateway,
    token: string,
    reference: string,
    args: object = {},
    headers = {},
  ) {
    const [server, name] = reference.split('/')
    const response = await postMcp(
      `${gateway.url}/mcp/${server}`,
      { id: 1, method: 'tools/call', params: { name, arguments: args } },
      { authorization: `Bearer ${token}`, ...headers },
    )
    const text = await response.text()
    const { error } = JSON.parse(/\{"jsonrpc".*\}/.exec(text)?.[0] ?? '{}')
    return error === undefined
      ? null
      : (error.data?.escalation_status ?? error.data?.denial_reason ?? error.message)
  }

  it('denies what a caller sends after it read, on every way round, and names the record that labelled', async () => {
    const [first, second] = await start()
    expect(await called(first, alice, 'mail/send')).to.equal(null)
    expect(await called(first, alice, 'files/read_file')).to.equal(null)
    const ways = [
      await called(first, alice, 'mail/send'),
      await called(second, alice, 'mail/send'),
      await called(first, alice, 'mail/forward'),
      await called(first, alice, 'mail/send', {}, { 'mcp-session-id': 'another' }),
      await called(
        first,
        alice,
        'mail/send',
        {},
        { traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01` },
      ),
      await called(first, await issuer.sign({ sub: 'alice', tenant: 'acme', jti: 'another' }), 'mail/send'),
    ]
    expect(ways).to.deep.equal(ways.map(() => 'flow_denied'))
    expect(await Promise.all([bob, bob].map((token) => called(first, token, 'mail/send')))).to.deep.equal([
      null,
      null,
    ])
    const records = first.records()
    const read = records.find(({ tool }) => tool.startsWith('read_file@'))
    expect(read?.findings?.map(({ reason, detail, effect }) => [reason, detail, effect])).to.deep.equal([
      ['flow_label', 'private', 'reported'],
    ])
    const denied = records.find(({ policy }) => policy.decision === 'deny')
    expect(denied?.findings?.[0]?.detail).to.match(
      new RegExp(
        `^private -> external: the caller has the label private, since \\S+ by mcp://files/read_file@\\S+ \\(trace ${read?.trace_id}\\)$`,
      ),
    )
  })

  it('labels before the response leaves: a send beside a read is denied once the caller can know what was read', async () => {
    const held = signalled<void>()
    const reading = signalled<void>()
    respond = async (message, response) => {
      if (JSON.stringify(message).includes('read_file')) {
        reading.resolve()
        await held.happened
      }
      json(response, result(message))
    }
    const [first, second] = await start()
    const read = called(first, alice, 'files/read_file')
    await reading.happened
    expect(await called(second, alice, 'mail/send'), 'nothing was read yet').to.equal(null)
    held.resolve()
    expect(await read).to.equal(null)
    expect(await called(second, alice, 'mail/send')).to.equal('flow_denied')
  })

  it('labels what a server returns after a labelled caller wrote to it', async () => {
    const [first, second] = await start({ ...flows, deny_flow: ['private -> external'] })
    await called(first, alice, 'files/read_file')
    expect(await called(second, bob, 'notes/list')).to.equal(null)
    expect(await called(second, bob, 'mail/send'), 'before the write').to.equal(null)
    expect(await called(first, alice, 'notes/write_note')).to.equal(null)
    expect(await called(second, bob, 'notes/list')).to.equal(null)
    expect(await called(second, bob, 'mail/send'), 'after the write').to.equal('flow_denied')
  })

  it('labels by what a response has, before the event that has it leaves', async () => {
    respond = (message, response) =>
      events(
        response,
        event(
          result(message, {
            content: [{ type: 'text', text: JSON.stringify(message).includes('key') ? secret : 'hi' }],
          }),
        ),
      )
    const [first] = await start({ ...flows, labels: [{ label: 'private', detector: 'secret' }] })
    expect(await called(first, alice, 'files/read_file', { path: 'notes' })).to.equal(null)
    expect(await called(first, alice, 'mail/send')).to.equal(null)
    expect(await called(first, alice, 'files/read_file', { path: 'key' })).to.equal(null)
    expect(await called(first, alice, 'mail/send')).to.equal('flow_denied')
  })

  it('labels by a condition of a rule', async () => {
    const rules = [
      {
        name: 'system-files',
        tools: ['files/*'],
        when: 'args.path.startsWith("/etc/")',
        then: 'report',
        labels: ['private'],
      },
    ]
    const [first] = await start({ ...flows, labels: [] }, { rules })
    await called(first, alice, 'files/read_file', { path: '/home/a' })
    expect(await called(first, alice, 'mail/send')).to.equal(null)
    await called(first, alice, 'files/read_file', { path: '/etc/passwd' })
    expect(await called(first, alice, 'mail/send')).to.equal('flow_denied')
  })

  it('is closed while the store is down: nothing labelled is delivered, and no sink is used', async () => {
    const [first] = await start()
    await redis.kill('SIGKILL')
    try {
      expect(await called(first, alice, 'files/read_file')).not.to.equal(null)
      expect(await called(first, alice, 'mail/send')).not.to.equal(null)
    } finally {
      await redis.restart()
    }
  })

  it('asks for an approval by default, and only reports with `report` and in observe mode', async () => {
    const seen: unknown[] = []
    for (const [effect, more] of [
      ['escalate', {}],
      ['report', {}],
      ['deny', { enforcement: { mode: 'observe' } }],
    ] as const) {
      const [first] = await start({ ...flows, effect }, more)
      await called(first, alice, 'files/read_file')
      seen.push(await called(first, alice, 'mail/send'))
    }
    expect(seen).to.deep.equal(['pending', null, null])
  })

  it('refuses a label that nothing gives and a sink that is not named', async () => {
    const failing = async (section: object) => String(await start(section).catch((error: unknown) => error))
    expect(await failing({ ...flows, deny_flow: ['secret -> external'] })).to.contain(
      'no call has the label "secret"',
    )
    expect(await failing({ ...flows, deny_flow: ['private -> outside'] })).to.contain(
      'sinks has no "outside"',
    )
  })
})
