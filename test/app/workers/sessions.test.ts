// What a client has at one worker it has at all: every request here has a connection of its own, and so another worker.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  CreateMessageRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Running } from '../../support/gateway-process.js'
import { until } from '../../support/redis.js'
import { type RoundRobin, startRoundRobin } from '../../support/round-robin.js'
import { connect1 } from '../../support/sdk-clients.js'
import { signalled } from '../../support/signalled.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'
import { capabilities, done, sessionTools } from '../federation/session-tools.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))

interface Reply {
  readonly status: number
  readonly session: string
  readonly text: string
}

function post(url: string, message: object, session?: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const agent = new Agent()
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(session === undefined ? {} : { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' }),
    }
    const sending = request(url, { method: 'POST', agent, headers, timeout: 20_000 }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.once('end', () => {
        const id = response.headers['mcp-session-id']
        resolve({ status: response.statusCode ?? 0, session: String(id ?? ''), text })
      })
      response.once('error', reject)
    })
    sending.once('timeout', () => sending.destroy(new Error('no response in time')))
    sending.once('error', reject).once('close', () => agent.destroy())
    sending.end(JSON.stringify({ jsonrpc: '2.0', ...message }))
  })
}

/** The GET stream of a session. */
async function openStream(url: string, session: string) {
  const headers = {
    accept: 'text/event-stream',
    'mcp-session-id': session,
    'mcp-protocol-version': '2025-06-18',
  }
  const asking = request(url, { agent: new Agent(), headers }).end()
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  expect(response.statusCode).to.equal(200)
  let text = ''
  response.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  return {
    async until(pattern: RegExp) {
      while (!pattern.test(text)) await once(response, 'data')
    },
    close: () => asking.destroy(),
  }
}

const initialize = {
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
}

const calling = (id: number, name: string, args: object = {}, meta: object = {}) => ({
  id,
  method: 'tools/call',
  params: { name, arguments: args, _meta: meta },
})

/** The text that a tool responds with. */
const textIn = ({ text }: Reply) => /"text":"([^"]*)"/.exec(text)?.[1]

describe('a session with several workers', function () {
  this.timeout(120_000)
  let home: string
  let gateway: Running
  let url: string
  /** The process ids by number. */
  const workers = new Map<number, number>()
  let notes: SessionServer
  let began: ReturnType<typeof signalled<void>>
  let cancelled: ReturnType<typeof signalled<void>>
  /** Each request on a connection of its own, and so at the next worker. */
  let inTurn: RoundRobin

  before(async () => {
    const register = (server: McpServer): void => {
      sessionTools('notes')(server)
      server.registerTool('hold', {}, ({ signal }) => {
        began.resolve()
        return new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            cancelled.resolve()
            resolve(done)
          }),
        )
      })
    }
    notes = await startSessionServer('notes', register, capabilities)
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    writeFileSync(
      join(home, 'policy.yaml'),
      `tenant: acme
port: 0
targets: { files: { command: "${process.execPath}", args: ["${scripted}", ""] }, notes: "${notes.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: open
quotas: { adapter: lmdb }
authn: { allowUnauthenticated: true }
`,
    )
    gateway = new Running(['--policy', join(home, 'policy.yaml'), '--workers', '2'])
    for (let i = 0; i < 2; i++) {
      const { worker = 0, pid = 0 } = await gateway.line('worker started')
      workers.set(worker, pid)
    }
    url = String((await gateway.line('listening')).url)
    inTurn = await startRoundRobin([url])
  })

  after(async () => {
    gateway.child.kill('SIGTERM')
    await gateway.exit
    await inTurn[Symbol.asyncDispose]()
    await notes[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  for (const path of ['/mcp/files', '/mcp']) {
    it(`at ${path} goes on at any worker, with one process of a command`, async () => {
      const { session } = await post(`${url}${path}`, initialize)
      expect(session).not.to.equal('')
      const tool = path === '/mcp' ? 'files__pid' : 'pid'
      const replies: Reply[] = []
      for (let id = 1; id <= 4; id++) replies.push(await post(`${url}${path}`, calling(id, tool), session))
      expect(replies.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200])
      expect(new Set(replies.map(textIn)).size, replies[0]?.text).to.equal(1)
      expect(textIn(replies[0] as Reply), replies[0]?.text).to.match(/^\d+$/)
    })
  }

  it('gets events before a response at any worker', async () => {
    const { session } = await post(`${url}/mcp/files`, initialize)
    for (const id of [1, 2]) {
      const asked = calling(id, 'progress', {}, { progressToken: 'p' })
      const { text } = await post(`${url}/mcp/files`, asked, session)
      expect(text)
        .to.match(/notifications\/progress/)
        .and.to.match(new RegExp(`"id":${id}`))
    }
  })

  it('is cancelled at one worker while it runs at the other', async () => {
    const { session } = await post(`${url}/mcp/files`, initialize)
    const send = (message: object) => post(`${url}/mcp/files`, message, session)
    for (const id of [1, 2]) {
      const running = send(calling(id, 'hang'))
      await until(async () => textIn(await send(calling(id + 10, 'running'))) === String(id + 1))
      const cancellation = { method: 'notifications/cancelled', params: { requestId: id } }
      expect((await send(cancellation)).status).to.equal(202)
      await running
      expect(textIn(await send(calling(id + 20, 'cancelled')))).to.equal(String(id))
    }
  })

  for (const path of ['/mcp/files', '/mcp']) {
    it(`at ${path} gets in a stream at one worker what a call at the other causes`, async () => {
      const { session } = await post(`${url}${path}`, initialize)
      for (const id of [1, 2]) {
        const stream = await openStream(`${url}${path}`, session)
        await post(`${url}${path}`, calling(id, path === '/mcp' ? 'files__changed' : 'changed'), session)
        await stream.until(/notifications\/tools\/list_changed/)
        stream.close()
      }
    })
  }

  for (const [path, prefix] of [
    ['/mcp/notes', ''],
    ['/mcp', 'notes__'],
  ] as const) {
    it(`at ${path} has all that a client of the SDK asks of a server over HTTP, at any worker`, async () => {
      const changed = [signalled(), signalled()]
      let changes = 0
      const prepare = (client: Client): void => {
        client.setRequestHandler(CreateMessageRequestSchema, () => ({
          model: 'm',
          role: 'assistant' as const,
          content: { type: 'text' as const, text: 'sampled' },
        }))
        client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed[changes++]?.resolve())
      }
      const before = new Set(notes.sessions.keys())
      const gets = notes.methods.filter((method) => method === 'GET').length
      const client = await connect1(`${inTurn.url}${path}`, { capabilities: { sampling: {} }, prepare })
      const call = (name: string, options = {}) =>
        client.callTool({ name: `${prefix}${name}`, arguments: {} }, undefined, options)
      // Each twice, so that each worker gets one of them.
      for (let i = 0; i < 2; i++) {
        expect(await call('read')).to.deep.include(done)
        expect(JSON.stringify(await call('ask'))).to.include('sampled')
        const progress: number[] = []
        await call('progress', { onprogress: (event: { progress: number }) => progress.push(event.progress) })
        expect(progress).to.deep.equal([1, 2])
      }
      const begun = [...notes.sessions.keys()].filter((id) => !before.has(id))
      expect(begun).to.have.length(1)
      await until(async () => notes.methods.filter((method) => method === 'GET').length > gets)
      for (const [i, signal] of changed.entries()) {
        notes.sessions.get(begun[0] ?? '')?.registerTool(`new-${i}`, {}, () => done)
        await signal.happened
        for (let worker = 0; worker < 2; worker++) {
          const names = (await client.listTools()).tools.map(({ name }) => name)
          expect(names).to.include(`${prefix}new-${i}`)
        }
      }
      for (let i = 0; i < 2; i++) {
        began = signalled()
        cancelled = signalled()
        const giveUp = new AbortController()
        const held = call('hold', { signal: giveUp.signal }).catch((error: Error) => error)
        await began.happened
        giveUp.abort()
        await cancelled.happened
        expect(await held).to.be.instanceOf(Error)
      }
      await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession()
      await until(async () => !notes.sessions.has(begun[0] ?? ''))
      await client.close()
    })
  }

  for (const [path, prefix] of [
    ['/mcp/notes', ''],
    ['/mcp', 'notes__'],
  ] as const) {
    it(`at ${path} of a server over HTTP goes on after the death of each worker`, async () => {
      let changed = signalled()
      const prepare = (client: Client): void =>
        client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed.resolve())
      const before = new Set(notes.sessions.keys())
      const client = await connect1(`${inTurn.url}${path}`, { prepare })
      expect(await client.callTool({ name: `${prefix}read`, arguments: {} })).to.deep.include(done)
      const [session = ''] = [...notes.sessions.keys()].filter((id) => !before.has(id))
      const getsChanges = async () => {
        changed = signalled()
        const change = setInterval(() => notes.sessions.get(session)?.sendToolListChanged(), 50)
        await changed.happened
        clearInterval(change)
      }
      // The SDK's client does not repeat its first request for a stream, which a killed worker may have.
      await getsChanges()
      for (const worker of [1, 0]) {
        process.kill(workers.get(worker) ?? 0, 'SIGKILL')
        const { pid = 0 } = await gateway.line('worker started')
        workers.set(worker, pid)
        for (let i = 0; i < 2; i++)
          expect(await client.callTool({ name: `${prefix}read`, arguments: {} })).to.deep.include(done)
        expect([...notes.sessions.keys()].filter((id) => !before.has(id))).to.deep.equal([session])
        // The client opens its stream again, and the gateway that of the server.
        await getsChanges()
      }
      await client.close()
    })
  }

  it('is refused at every worker with an id that none has given', async () => {
    const statuses = await Promise.all(
      [1, 2].map((id) => post(`${url}/mcp/files`, calling(id, 'pid'), 'not-a-session')),
    )
    expect(statuses.map(({ status }) => status)).to.deep.equal([404, 404])
  })

  it('ends with the worker that has the processes, and begins anew', async () => {
    const { session } = await post(`${url}/mcp/files`, initialize)
    const before = textIn(await post(`${url}/mcp/files`, calling(1, 'pid'), session))
    process.kill(workers.get(0) ?? 0, 'SIGKILL')
    await gateway.line('worker started')
    expect((await post(`${url}/mcp/files`, calling(2, 'pid'), session)).status).to.equal(404)
    const next = await post(`${url}/mcp/files`, initialize)
    const pids = [3, 4].map(async (id) =>
      textIn(await post(`${url}/mcp/files`, calling(id, 'pid'), next.session)),
    )
    const [one, other] = await Promise.all(pids)
    expect(one).to.equal(other).and.not.to.equal(before)
  })
})
