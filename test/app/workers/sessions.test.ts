// What a client has at one worker it has at all: every request here has a connection of its own, and so another worker.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Running } from '../../support/gateway-process.js'
import { until } from '../../support/redis.js'

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
  let owner: number

  before(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    writeFileSync(
      join(home, 'policy.yaml'),
      `tenant: acme
port: 0
targets: { files: { command: "${process.execPath}", args: ["${scripted}", ""] } }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: open
quotas: { adapter: lmdb }
authn: { allowUnauthenticated: true }
`,
    )
    gateway = new Running(['--policy', join(home, 'policy.yaml'), '--workers', '2'])
    for (let i = 0; i < 2; i++) {
      const { worker, pid = 0 } = await gateway.line('worker started')
      if (worker === 0) owner = pid
    }
    url = String((await gateway.line('listening')).url)
  })

  after(async () => {
    gateway.child.kill('SIGTERM')
    await gateway.exit
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

  it('is refused at every worker with an id that none has given', async () => {
    const statuses = await Promise.all(
      [1, 2].map((id) => post(`${url}/mcp/files`, calling(id, 'pid'), 'not-a-session')),
    )
    expect(statuses.map(({ status }) => status)).to.deep.equal([404, 404])
  })

  it('ends with the worker that has the processes, and begins anew', async () => {
    const { session } = await post(`${url}/mcp/files`, initialize)
    const before = textIn(await post(`${url}/mcp/files`, calling(1, 'pid'), session))
    process.kill(owner, 'SIGKILL')
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
