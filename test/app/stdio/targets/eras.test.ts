import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import type { TestGateway } from '../../../support/gateway.js'
import { postStateless } from '../../../support/mcp-post.js'
import { connect, say, scriptedTarget, withStdio } from '../../../support/stdio-target.js'

const PROTOCOL = 'io.modelcontextprotocol'
const meta = { [`${PROTOCOL}/clientInfo`]: { name: 'test', version: '1' } }

type Fields = Record<string, unknown>

/** A request of 2026-07-28. */
async function request(gateway: TestGateway, method: string, params: Fields = {}, signal?: AbortSignal) {
  return postStateless(`${gateway.url}/mcp/files`, method, params, { id: 'r1', meta, signal })
}

async function resultOf(response: Promise<Response>): Promise<Fields> {
  const { result } = (await (await response).json()) as { result: Fields }
  return result
}

/** The events of a stream until one names `last`. */
async function eventsUntil(response: Response, last: string): Promise<Fields[]> {
  const messages: Fields[] = []
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const data = block.split('\n').find((line) => line.startsWith('data: '))
      if (data !== undefined) messages.push(JSON.parse(data.slice(6)) as Fields)
    }
    if (messages.some(({ method }) => method === last)) return messages
  }
  return messages
}

for (const [era, mode] of [
  ['the handshake', ''],
  ['2026-07-28', 'stateless'],
] as const) {
  describe(`a client of 2026-07-28 before a process of ${era}`, () => {
    it('discovers the server, lists and calls its tools', async () => {
      await withStdio(scriptedTarget(mode), async (gateway) => {
        const found = await resultOf(request(gateway, 'server/discover'))
        expect(found).to.have.property('resultType', 'complete')
        expect(found['supportedVersions']).to.include('2026-07-28')
        expect(found['_meta']).to.have.deep.property(`${PROTOCOL}/serverInfo`, {
          name: 'scripted',
          version: '3.1.0',
        })
        const listed = await resultOf(request(gateway, 'tools/list'))
        expect(listed).to.include({ resultType: 'complete', cacheScope: 'private' })
        const called = await resultOf(
          request(gateway, 'tools/call', { name: 'echo', arguments: { said: 'hi' } }),
        )
        expect(called).to.deep.include({ resultType: 'complete', content: [{ type: 'text', text: 'hi' }] })
        const record = gateway.records().find((one) => Reflect.get(one, 'mcp_method') === 'tools/call')
        expect(record).to.include({ tool: 'echo@3.1.0', mcp_revision: '2026-07-28' })
      })
    })

    it('gets progress with its own token, and none of another client', async () => {
      await withStdio(scriptedTarget(mode), async (gateway) => {
        const call = { name: 'progress', arguments: {} }
        const own = { id: 7, meta: { ...meta, progressToken: 'mine' } }
        const response = await postStateless(`${gateway.url}/mcp/files`, 'tools/call', call, own)
        const messages = await eventsUntil(response, 'none')
        const tokens = messages.slice(0, 2).map(({ params }) => (params as Fields)['progressToken'])
        expect(tokens).to.deep.equal(['mine', 'mine'])
        expect(messages[2]).to.have.property('id', 7)
      })
    })

    it('gets list changes under the id of its own request', async () => {
      await withStdio(scriptedTarget(mode), async (gateway) => {
        const leaving = new AbortController()
        const notifications = {
          toolsListChanged: true,
          promptsListChanged: true,
          resourceSubscriptions: ['test://a'],
        }
        const stream = await request(gateway, 'subscriptions/listen', { notifications }, leaving.signal)
        await resultOf(request(gateway, 'tools/call', { name: 'changed', arguments: {} }))
        const messages = await eventsUntil(stream, 'notifications/resources/updated')
        leaving.abort()
        expect(messages.map(({ method }) => method)).to.deep.equal([
          'notifications/subscriptions/acknowledged',
          'notifications/tools/list_changed',
          'notifications/resources/updated',
        ])
        const params = messages.map((message) => message['params'] as Fields)
        expect(params[0]?.['notifications']).to.deep.equal({
          toolsListChanged: true,
          resourceSubscriptions: ['test://a'],
        })
        for (const one of params) expect(one['_meta']).to.have.property(`${PROTOCOL}/subscriptionId`, 'r1')
      })
    })

    it('is refused methods that its revision does not have', async () => {
      await withStdio(scriptedTarget(mode), async (gateway) => {
        expect((await request(gateway, 'ping')).status).to.equal(404)
        expect((await request(gateway, 'unknown/method')).status).to.equal(404)
      })
    })
  })
}

describe('a client of the handshake before a process of 2026-07-28', () => {
  it('completes the handshake, lists and calls tools, and gets pings', async () => {
    await withStdio(scriptedTarget('stateless'), async (gateway) => {
      await using client = await connect(gateway)
      expect(client.getServerVersion()).to.deep.equal({ name: 'scripted', version: '3.1.0' })
      await client.ping()
      expect(await say(client, 'echo', { said: 'hi' })).to.equal('hi')
      const { contents } = await client.readResource({ uri: 'test://a' })
      const { meta } = JSON.parse((contents[0] as { text: string }).text) as { meta: Fields }
      expect(meta).to.include({ [`${PROTOCOL}/protocolVersion`]: '2026-07-28' })
    })
  })

  it('subscribes to resources', async () => {
    await withStdio(scriptedTarget('stateless'), async (gateway) => {
      await using client = await connect(gateway)
      const updated = new Promise<string>((resolve) => {
        client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri))
      })
      await client.subscribeResource({ uri: 'test://a' })
      await say(client, 'changed')
      expect(await updated).to.equal('test://a')
    })
  })

  it('gets an error if the server requests input', async () => {
    await withStdio(scriptedTarget('stateless'), async (gateway) => {
      await using client = await connect(gateway)
      const error = await say(client, 'input').catch((error: unknown) => String(error))
      expect(error).to.include('only clients of 2026-07-28 can give')
    })
  })
})
