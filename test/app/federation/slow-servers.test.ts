// Servers that hang, are down, or respond late, among others: nobody waits for the slowest.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { type Call, failed, type Outcome } from '@svc/core'
import { expect } from 'chai'
import { wholeList } from 'svc-sdk/internal/federation/catalog'
import type { ClientRequest } from 'svc-sdk/internal/federation/client-request'
import { ServerHealth } from 'svc-sdk/internal/federation/server-calls'
import { FederationSession } from 'svc-sdk/internal/federation/session'
import { startTestGateway } from '../../support/gateway.js'
import { freePort } from '../../support/loopback.js'
import { connect1 } from '../../support/sdk-clients.js'
import { startSessionServer } from '../../support/tool-servers.js'
import { capabilities, done } from './session-tools.js'

/** A port that accepts connections and says nothing until `respond`, from which on it is the server at a URL. */
async function startHungPort() {
  const held: Socket[] = []
  let target: number | undefined
  const join = (socket: Socket): void => {
    const upstream = connect(Number(target), '127.0.0.1').on('error', () => socket.destroy())
    socket.pipe(upstream).pipe(socket)
    socket.on('close', () => upstream.destroy())
  }
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    held.push(socket)
    if (target !== undefined) join(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    held,
    respond(url: string): void {
      target = Number(new URL(url).port)
      held.map(join)
    },
    async [Symbol.asyncDispose]() {
      for (const socket of held) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const startServer = (name: string, tools = 1) =>
  startSessionServer(
    name,
    (server) => {
      for (let at = 0; at < tools; at++) server.registerTool(`tool${at}`, {}, () => done)
    },
    capabilities,
  )

const namesOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)

describe('several servers of which some do not respond', function () {
  this.timeout(60_000)

  it('are listed to a second client at once, with the reasons of those that are missing', async () => {
    const servers = await Promise.all(Array.from({ length: 8 }, (_, at) => startServer(`s${at}`, 30)))
    await using hung = await startHungPort()
    const targets = {
      hung: hung.url,
      dead: `http://127.0.0.1:${await freePort()}/mcp`,
      ...Object.fromEntries(servers.map(({ url }, at) => [`s${at}`, url])),
    }
    await using gateway = await startTestGateway({ targets })
    const first = await connect1(`${gateway.url}/mcp`)
    expect(await namesOf(first)).to.have.length(240)
    const since = performance.now()
    const second = await connect1(`${gateway.url}/mcp`)
    const { tools, _meta } = await second.listTools()
    // The hung server would take three seconds of each.
    expect(performance.now() - since).to.be.below(2_500)
    expect(tools).to.have.length(240)
    const missing = _meta?.['svc/unavailable'] as { server: string }[]
    expect(missing.map(({ server }) => server)).to.deep.equal(['hung', 'dead'])
    for (const kind of ['tools', 'prompts', 'resources'] as const)
      expect(second.getServerCapabilities()?.[kind]).to.include({ listChanged: true })
    await first.close()
    await second.close()
    for (const server of servers) await server[Symbol.asyncDispose]()
  })

  it('are all in the list of a client that lists once, before one of them responds', async () => {
    await using early = await startServer('early')
    await using late = await startServer('late')
    await using hung = await startHungPort()
    await using gateway = await startTestGateway({ targets: { early: early.url, late: hung.url } })
    const connecting = connect1(`${gateway.url}/mcp`)
    while (hung.held.length === 0 || early.methods.length === 0) await new Promise(setImmediate)
    hung.respond(late.url)
    const client = await connecting
    expect(await namesOf(client)).to.deep.equal(['early__tool0', 'late__tool0'])
    await client.close()
  })

  it('are announced when they respond later', async () => {
    await using early = await startServer('early')
    await using late = await startServer('late')
    await using hung = await startHungPort()
    await using gateway = await startTestGateway({ targets: { early: early.url, late: hung.url } })
    let isChanged = false
    const prepare = (one: Client): void =>
      one.setNotificationHandler(ToolListChangedNotificationSchema, () => {
        isChanged = true
      })
    await using client = await connect1(`${gateway.url}/mcp`, { prepare })
    expect(await namesOf(client)).to.deep.equal(['early__tool0'])
    hung.respond(late.url)
    while (!isChanged) await new Promise(setImmediate)
    expect(await namesOf(client)).to.have.members(['early__tool0', 'late__tool0'])
  })

  it('keep the entries that were listed last while they are down', async () => {
    await using early = await startServer('early')
    await using late = await startServer('late')
    await using gateway = await startTestGateway({
      targets: { early: early.url, late: late.url },
      federation: { list_ttl_ms: 0 },
    })
    await using client = await connect1(`${gateway.url}/mcp`)
    expect(await namesOf(client)).to.deep.equal(['early__tool0', 'late__tool0'])
    await late.down()
    for (const _again of [1, 2]) {
      const { tools, _meta } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.deep.equal(['early__tool0', 'late__tool0'])
      expect(_meta).to.have.nested.property('svc/unavailable[0].server', 'late')
    }
  })
})

describe('the health of a server', () => {
  const unreachable: Outcome = failed('UPSTREAM_UNREACHABLE', 'no')

  it('lets lists ask it again after 10, 30 and 60 seconds, and at once when it has responded', () => {
    let now = 0
    const health = new ServerHealth({ monotonic: () => now })
    for (const ms of [10_000, 30_000, 60_000]) {
      health.observe('s', unreachable)
      // A call of a client in the meantime is not another attempt.
      health.observe('s', unreachable)
      now += ms - 1
      expect(health.backingOff('s')).to.equal('no')
      now += 1
      expect(health.backingOff('s')).to.equal(undefined)
      expect(health.isInTrouble('s')).to.equal(true)
    }
    health.observe('s', { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() } as Outcome)
    expect(health.isInTrouble('s')).to.equal(false)
    health.observe('s', unreachable)
    now += 9_999
    expect(health.backingOff('s')).to.equal('no')
  })
})

describe('a list that is retained while its server is down', () => {
  it('has what the rules of the caller allow now, and nothing of other credentials', async () => {
    const clock = { now: () => 0, monotonic: () => 0 }
    const session = new FederationSession(
      'id',
      'acme',
      { revision: '2025-11-25', capabilities: {}, clientInfo: null },
      clock,
    )
    const entries = [{ name: 'read' }, { name: 'wipe' }]
    const list = { entries, characters: 0, ttlMs: 0, isCut: false }
    await session.lists.of({ server: 'files', kind: 'tools', scope: 'mine' }, 0, async () => list)
    const health = new ServerHealth(clock)
    health.observe('files', failed('UPSTREAM_UNREACHABLE', 'no'))
    const rules = { mayRequest: (reference: string) => !reference.includes('wipe') } as unknown as Call
    const listAs = async (scope: string) => {
      session.usable = { servers: ['files'], scope, until: 1, rules }
      const config = { prefix: 'always', list_ttl_ms: 0 }
      const request = {
        session,
        scope,
        servers: ['files'],
        clock,
        config,
        health,
        logMissing: () => undefined,
      }
      const { entries: listed } = await wholeList(request as unknown as ClientRequest, 'tools')
      return listed.map(({ name }) => name)
    }
    expect(await listAs('mine')).to.deep.equal(['files__read'])
    const error = await listAs('theirs').catch((reason: unknown) => reason)
    expect(error).to.have.property('code', 'UPSTREAM_UNREACHABLE')
  })
})
