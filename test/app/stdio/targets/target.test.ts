import {
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { postMcp } from '../../../support/mcp-post.js'
import { connect, say, scriptedTarget, withStdio } from '../../../support/stdio-target.js'

function raw(
  { url }: { url: string },
  message: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return postMcp(`${url}/mcp/files`, message, headers)
}

describe('a target that is a command', () => {
  it('is an MCP server over Streamable HTTP for its clients, and is recorded with tool and version', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      expect(client.getServerVersion()).to.deep.equal({ name: 'scripted', version: '3.1.0' })
      expect(client.getInstructions()).to.equal('be kind')
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.include('echo')
      expect(await say(client, 'echo', { said: 'hello' })).to.equal('hello')
      const called = gateway.records().find((record) => Reflect.get(record, 'mcp_method') === 'tools/call')
      expect(called).to.include({ server: 'files@3.1.0', tool: 'echo@3.1.0', status: 'ok' })
    })
  })

  it('lists and runs only what the policy allows', async () => {
    const entitlements = {
      default_plan: 'free',
      plans: { free: { allowlist: ['files/echo', 'files/pid'] } },
      tenants: {},
    }
    await withStdio(
      scriptedTarget(),
      async (gateway) => {
        await using client = await connect(gateway)
        const { tools } = await client.listTools()
        expect(tools.map(({ name }) => name)).to.deep.equal(['echo', 'pid'])
        const refused = await client.callTool({ name: 'env' }).catch((error: unknown) => error)
        expect(refused).to.have.nested.property('data.denial_reason', 'tool_not_in_allowlist')
      },
      { entitlements },
    )
  })

  it('serves the invoke protocol too', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      const response = await gateway.invoke('/mcp/files/echo@3.1.0', { said: 'hello' })
      expect(await response.json()).to.deep.equal({ content: [{ type: 'text', text: 'hello' }] })
    })
  })

  it('is one process for all clients, each of which gets only its own progress', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using one = await connect(gateway)
      await using other = await connect(gateway)
      expect(await say(one, 'pid')).to.equal(await say(other, 'pid'))
      const progress = { one: 0, other: 0 }
      const call = { name: 'progress', arguments: {} }
      await Promise.all([
        one.callTool(call, undefined, { onprogress: () => void progress.one++ }),
        other.callTool(call, undefined, { onprogress: () => void progress.other++ }),
      ])
      expect(progress).to.deep.equal({ one: 2, other: 2 })
    })
  })

  it('notifies clients of changed lists and of resources that they subscribed to', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using subscriber = await connect(gateway)
      await using other = await connect(gateway)
      const heard: string[] = []
      const changed = new Promise<void>((resolve) => {
        other.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve())
      })
      const updated = new Promise<void>((resolve) => {
        subscriber.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
          heard.push(`subscriber ${params.uri}`)
          resolve()
        })
      })
      other.setNotificationHandler(ResourceUpdatedNotificationSchema, () => void heard.push('other'))
      await subscriber.subscribeResource({ uri: 'test://a' })
      await say(subscriber, 'changed')
      await Promise.all([changed, updated])
      expect(heard).to.deep.equal(['subscriber test://a'])
    })
  })

  it('gives its process only the usual environment variables and those of the policy', async () => {
    process.env['SVC_TEST_SECRET'] = 's3cret-of-the-gateway'
    const env = { LEVEL: 'debug', TOKEN: 'env:SVC_TEST_SECRET' }
    try {
      await withStdio(scriptedTarget('', { env }), async (gateway) => {
        await using client = await connect(gateway)
        const seen = JSON.parse(await say(client, 'env')) as Record<string, string>
        expect(seen).to.include({ LEVEL: 'debug', TOKEN: 's3cret-of-the-gateway' })
        expect(seen['PATH']).to.equal(process.env['PATH'])
        expect(seen).to.not.have.property('SVC_TEST_SECRET')
      })
    } finally {
      delete process.env['SVC_TEST_SECRET']
    }
  })

  it('is notified when a client cancels a request', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      const leaving = new AbortController()
      const call = client.callTool({ name: 'hang', arguments: {} }, undefined, { signal: leaving.signal })
      const rejected = call.catch((error: unknown) => String(error))
      expect(await say(client, 'echo', { said: 'between' })).to.equal('between')
      leaving.abort('enough')
      expect(await rejected).to.include('enough')
      let count = 0
      while (count === 0) count = Number(await say(client, 'cancelled'))
    })
  })

  it('passes results on unchanged', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      const response = await gateway.invoke('/mcp/files/echo@3.1.0', { said: 'first' })
      expect(response.status).to.equal(200)
      const open = await raw(gateway, {
        id: 0,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18' },
      })
      const session = open.headers.get('mcp-session-id') ?? ''
      const call = { id: 'mine', method: 'tools/call', params: { name: 'exact', arguments: {} } }
      const text = await (await raw(gateway, call, { 'mcp-session-id': session })).text()
      expect(text).to.include('"id":"mine"').and.include('12345678901234567890')
    })
  })

  it('continues the trace of the call', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      const traceId = 'a'.repeat(32)
      await using client = await connect(gateway, {
        headers: { traceparent: `00-${traceId}-${'b'.repeat(16)}-01` },
      })
      const { contents } = await client.readResource({ uri: 'test://a' })
      const { meta } = JSON.parse((contents[0] as { text: string }).text) as { meta: { traceparent: string } }
      const span = gateway
        .records()
        .findLast((record) => Reflect.get(record, 'mcp_method') === 'resources/read')
      expect(meta.traceparent).to.equal(`00-${traceId}-${Reflect.get(span ?? {}, 'span_id')}-01`)
    })
  })

  it('refuses a session that it did not begin', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      const post = (headers: Record<string, string>) => raw(gateway, { id: 1, method: 'tools/list' }, headers)
      expect((await post({})).status).to.equal(400)
      expect((await post({ 'mcp-session-id': 'guessed' })).status).to.equal(404)
    })
  })
})
