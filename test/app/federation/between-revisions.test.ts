// Clients without sessions (2026-07-28) at /mcp in front of a server of SDK 1.x with sessions.
import { EmptyResultSchema, ListRootsResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { postStateless } from '../../support/mcp-post.js'
import { connect2 } from '../../support/sdk-clients.js'
import { signalled } from '../../support/signalled.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'

const prefix = 'io.modelcontextprotocol/'
const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })

describe('a client of 2026-07-28 at /mcp with a server of 2025-11-25', function () {
  this.timeout(30_000)
  let server: SessionServer
  let gateway: TestGateway
  let began: ReturnType<typeof signalled<void>>
  let cancelled: ReturnType<typeof signalled<void>>

  before(async () => {
    let waiting: (() => void)[] = []
    began = signalled()
    cancelled = signalled()
    server = await startSessionServer('old', (sdk) => {
      sdk.registerTool('ping', {}, async ({ sendRequest }) =>
        text(JSON.stringify(await sendRequest({ method: 'ping' }, EmptyResultSchema))),
      )
      sdk.registerTool('roots', {}, async ({ sendRequest }) => {
        const asked = sendRequest({ method: 'roots/list' }, ListRootsResultSchema)
        return text(
          await asked.then(
            () => 'roots',
            (error) => String(error.code),
          ),
        )
      })
      sdk.registerTool('both', {}, async ({ _meta, sendNotification }) => {
        const progressToken = _meta?.progressToken ?? ''
        await sendNotification({ method: 'notifications/progress', params: { progressToken, progress: 1 } })
        await new Promise<void>((resolve) => {
          waiting.push(resolve)
          if (waiting.length < 2) return
          for (const go of waiting) go()
          waiting = []
        })
        return text(String(progressToken))
      })
      sdk.registerTool('wait', {}, ({ signal }) => {
        began.resolve()
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            cancelled.resolve()
            resolve(text('cancelled'))
          })
        })
      })
    })
    gateway = await startTestGateway({ targets: { old: server.url } })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  async function post(name: string, meta: object, signal?: AbortSignal) {
    const call = { name, arguments: {} }
    const response = await postStateless(`${gateway.url}/mcp`, 'tools/call', call, { meta, signal })
    return response.text()
  }

  it('gets its response if the server pings during the call, and if the server sends a request that cannot be passed on', async () => {
    await using client = await connect2(`${gateway.url}/mcp`)
    expect(await client.callTool({ name: 'old__ping', arguments: {} })).to.deep.include(text('{}'))
    expect(await client.callTool({ name: 'old__roots', arguments: {} })).to.deep.include(text('-32601'))
  })

  it('may omit its name and version', async () => {
    expect(await post('old__ping', {})).to.include('"text":"{}"')
  })

  it('does not block another one that has the same identity, ids and tokens for progress', async () => {
    const meta = { [`${prefix}clientInfo`]: { name: 'twin', version: '1' }, progressToken: 'same' }
    const [one, two] = await Promise.all([post('old__both', meta), post('old__both', meta)])
    for (const response of [one, two])
      expect(response)
        .to.include('"progressToken":"same"')
        .and.to.match(/"id":1[,}]/)
        .and.not.to.include('"error"')
    const ids = gateway.records().flatMap(({ tool, rpc_id }) => (tool.startsWith('both') ? [rpc_id] : []))
    expect(ids).to.deep.equal([1, 1])
  })

  it('cancels its request at the server when it disconnects', async () => {
    const leaving = new AbortController()
    const response = post('old__wait', {}, leaving.signal).catch((error: unknown) => error)
    await began.happened
    leaving.abort()
    await cancelled.happened
    expect(await response).to.have.property('name', 'AbortError')
  })
})
