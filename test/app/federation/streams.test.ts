import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  CreateMessageRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { acceptedContent, inputRequired, type ServerContext } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { ofEachTest } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { type SessionServer, startSessionServer, startStatelessServer } from '../../support/tool-servers.js'

import { capabilities, done, sessionTools } from './session-tools.js'

const sure = z.object({ sure: z.boolean() })

const askForInput = ({ mcpReq }: ServerContext) => {
  const input = acceptedContent(mcpReq.inputResponses, 'confirm', sure)
  if (input !== undefined) return { content: [{ type: 'text' as const, text: JSON.stringify(input) }] }
  return inputRequired({
    inputRequests: { confirm: inputRequired.elicit({ message: 'Sure?', requestedSchema: sure }) },
  })
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

/** Resolves with the first value. */
function firstValue<T>(listen: (tell: (value: T) => void) => void): Promise<T> {
  return new Promise((resolve) => listen(resolve))
}

describe('streams of several servers at /mcp', function () {
  this.timeout(60_000)

  const one = ofEachTest(() => startSessionServer('one', sessionTools('one'), capabilities))
  const two = ofEachTest(() => startSessionServer('two', sessionTools('two'), capabilities))
  const math = ofEachTest(() =>
    startStatelessServer(
      'math',
      (server) => {
        server.registerTool('add', { inputSchema: z.object({}) }, () => done)
        server.registerTool('ask', {}, askForInput)
        server.registerResource('pi', 'math://pi', {}, () => ({
          contents: [{ uri: 'math://pi', text: '3' }],
        }))
      },
      { resources: { subscribe: true } },
    ),
  )
  const gateway = ofEachTest(() =>
    startTestGateway({ targets: { one: one.url, two: two.url, math: math.url } }),
  )

  const sessionOf = (server: SessionServer): McpServer => {
    const [session] = server.sessions.values()
    if (session === undefined) throw new Error('no session')
    return session
  }

  /** Waits for the GET streams of the two servers with sessions and the subscription at the third. */
  async function streaming(): Promise<void> {
    const isOpen = () =>
      [one, two].every(({ methods }) => methods.includes('GET')) &&
      math.methods.includes('subscriptions/listen')
    while (!isOpen()) await nextTurn()
  }

  it('include a server that could not be reached when the client began', async () => {
    await using other = await startTestGateway({
      targets: { one: one.url, two: two.url },
      federation: { list_ttl_ms: 0 },
    })
    await one.down()
    await using client = await connect1(`${other.url}/mcp`)
    await client.setLoggingLevel('error')
    const { tools, _meta } = await client.listTools()
    expect(tools.map(({ name }) => name))
      .to.include('two__read')
      .and.not.include('one__read')
    expect(_meta).to.have.nested.property('svc/unavailable[0].server', 'one')
    const missing = other.log.lines.find(
      ({ message }) => message === 'a server is missing from a merged response',
    )
    expect(missing?.fields).to.include({ server: 'one' })
    await one.up()
    // A call is sent although lists leave the server alone for a time.
    await client.callTool({ name: 'one__read' })
    const changed = firstValue<void>((tell) =>
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => tell()),
    )
    expect((await client.listTools()).tools.map(({ name }) => name)).to.include('one__read')
    expect(one.methods).to.include('logging/setLevel')
    while (!one.methods.includes('GET')) await nextTurn()
    sessionOf(one).sendToolListChanged()
    await changed
  })

  describe('with a client of SDK 1.x', () => {
    let client: Client

    beforeEach(async () => {
      client = await connect1(`${gateway.url}/mcp`, {
        capabilities: { sampling: {}, roots: { listChanged: true } },
      })
      await streaming()
    })

    afterEach(() => client.close())

    it('have the list changes of each server, in both kinds of revision', async () => {
      for (const change of [
        () => sessionOf(one).sendToolListChanged(),
        () => sessionOf(two).sendToolListChanged(),
        () => math.notify.toolsChanged(),
      ]) {
        const changed = firstValue<void>((tell) =>
          client.setNotificationHandler(ToolListChangedNotificationSchema, () => tell()),
        )
        change()
        await changed
      }
    })

    it('remove a changed list from the cache', async () => {
      expect((await client.listTools()).tools.map(({ name }) => name)).to.not.include('one__new')
      const changed = firstValue<void>((tell) =>
        client.setNotificationHandler(ToolListChangedNotificationSchema, () => tell()),
      )
      sessionOf(one).registerTool('new', {}, () => done)
      await changed
      expect((await client.listTools()).tools.map(({ name }) => name)).to.include('one__new')
    })

    it('have the updates of a resource under the URI of the subscription', async () => {
      const updated = firstValue<string>((tell) =>
        client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => tell(params.uri)),
      )
      await client.subscribeResource({ uri: 'svc:two/note://1' })
      await sessionOf(two).server.sendResourceUpdated({ uri: 'note://1' })
      expect(await updated).to.equal('svc:two/note://1')
    })

    it('offer no resource updates if the only server with updates has no sessions', async () => {
      await using alone = await startTestGateway({ targets: { math: math.url } })
      await using other = await connect1(`${alone.url}/mcp`)
      expect(other.getServerCapabilities()?.resources).to.deep.equal({ listChanged: true })
      const error = await other.subscribeResource({ uri: 'math://pi' }).catch((reason: unknown) => reason)
      expect(String(error)).to.include('subscriptions')
    })

    it('have the log messages of each server, at the level that the client sets for all', async () => {
      await client.setLoggingLevel('error')
      for (const server of [one, two]) {
        expect(server.methods).to.include('logging/setLevel')
        const logged = firstValue<unknown>((tell) =>
          client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => tell(params.data)),
        )
        await sessionOf(server).sendLoggingMessage({ level: 'error', data: 'loud' })
        expect(await logged).to.equal('loud')
      }
    })

    it('pass the requests of servers to the client, even if their ids are equal', async () => {
      const texts: string[] = []
      client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
        const text = JSON.stringify(params.messages)
        texts.push(text)
        return {
          model: 'm',
          role: 'assistant' as const,
          content: { type: 'text' as const, text: `for ${text}` },
        }
      })
      const [first, second] = await Promise.all(
        ['one__ask', 'two__ask'].map((name) => client.callTool({ name, arguments: {} })),
      )
      expect(JSON.stringify(first?.content)).to.include('of one').and.not.include('of two')
      expect(JSON.stringify(second?.content)).to.include('of two').and.not.include('of one')
      expect(texts).to.have.length(2)
      const responses = gateway.records().filter(({ tool }) => tool.startsWith('response@'))
      expect(responses.map(({ server }) => server).sort()).to.deep.equal(['one@1.0.0', 'two@1.0.0'])
    })

    it('have the progress of a call', async () => {
      const progress: number[] = []
      await client.callTool({ name: 'two__progress', arguments: {} }, undefined, {
        onprogress: (update) => progress.push(update.progress),
      })
      expect(progress).to.deep.equal([1, 2])
    })

    it('cancel a call at its server', async () => {
      const cancel = new AbortController()
      const call = client.callTool({ name: 'one__wait', arguments: {} }, undefined, { signal: cancel.signal })
      while (!one.methods.includes('tools/call')) await nextTurn()
      cancel.abort()
      await call.catch(() => undefined)
      while (!one.methods.includes('notifications/cancelled')) await nextTurn()
      expect(two.methods).to.not.include('notifications/cancelled')
    })

    it('tell every server with a session that the roots have changed', async () => {
      await client.notification({ method: 'notifications/roots/list_changed' })
      for (const server of [one, two]) expect(server.methods).to.include('notifications/roots/list_changed')
    })
  })

  describe('with a client of SDK 2.x', () => {
    it("pass a server's request for input to the client, and the input to that server", async () => {
      await using client = await connect2(`${gateway.url}/mcp`, { capabilities: { elicitation: {} } })
      client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { sure: true } }))
      const result = await client.callTool({ name: 'math__ask', arguments: {} })
      expect(result.content).to.deep.equal([{ type: 'text', text: '{"sure":true}' }])
      const calls = gateway.records().filter(({ tool }) => tool === 'ask@2.0.0')
      expect(calls.map(({ server }) => server)).to.deep.equal(['math@2.0.0', 'math@2.0.0'])
    })

    it('have the requested notifications of servers of both kinds of revision', async () => {
      await using client = await connect2(`${gateway.url}/mcp`)
      const changes: (() => void)[] = []
      const uris: ((uri: string) => void)[] = []
      client.setNotificationHandler('notifications/tools/list_changed', () => changes.shift()?.())
      client.setNotificationHandler('notifications/resources/updated', ({ params }) =>
        uris.shift()?.(params.uri),
      )
      const listening = await client.listen({
        toolsListChanged: true,
        resourceSubscriptions: ['math://pi', 'svc:one/note://1'],
      })
      expect(listening.honoredFilter).to.deep.equal({
        toolsListChanged: true,
        resourceSubscriptions: ['math://pi', 'svc:one/note://1'],
      })
      await streaming()
      for (const change of [() => sessionOf(one).sendToolListChanged(), () => math.notify.toolsChanged()]) {
        const changed = firstValue<void>((tell) => changes.push(tell))
        change()
        await changed
      }
      for (const [update, uri] of [
        [() => void sessionOf(one).server.sendResourceUpdated({ uri: 'note://1' }), 'svc:one/note://1'],
        [() => math.notify.resourceUpdated('math://pi'), 'math://pi'],
      ] as const) {
        const updated = firstValue<string>((tell) => uris.push(tell))
        update()
        expect(await updated).to.equal(uri)
      }
      await listening.close()
    })
  })
})
