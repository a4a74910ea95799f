// Clients of SDK releases of all revisions do the same work directly and through the gateway, with servers of each age.
import { expect } from 'chai'
import { connectSdk1, connectSdk2, type McpClient } from '../support/mcp-clients.js'
import { revisions, STATELESS, startServerOfEachRevision } from '../support/mcp-revisions.js'
import { startMcpRoutes } from '../support/mcp-routes.js'
import { handshakeRevisions } from '../support/mcp-sdks.js'
import { ofSuite } from '../support/parts.js'
import { signalled } from '../support/signalled.js'

type Work = (client: McpClient) => Promise<unknown>

const works: Readonly<Record<string, Work>> = {
  'learn what the server is': async ({ requests }) => [
    requests.getServerVersion(),
    requests.getServerCapabilities(),
    requests.getInstructions(),
  ],
  'list tools, resources, templates and prompts': async ({ requests }) => [
    await requests.listTools(),
    await requests.listResources(),
    await requests.listResourceTemplates(),
    await requests.listPrompts(),
  ],
  'call tools, also one that fails and one that is not there': async ({ requests }) => [
    await requests.callTool({ name: 'test_simple_text' }),
    await requests.callTool({ name: 'test_sum', arguments: { a: 1, b: 2 } }),
    await requests.callTool({ name: 'test_error_handling' }),
    await failureOf(requests.callTool({ name: 'test_sum', arguments: { a: 'x' } })),
    await failureOf(requests.callTool({ name: 'none' })),
  ],
  'call a tool with progress': async (client) => {
    const heard: number[] = []
    const result = await client.callWithProgress('test_tool_with_progress', ({ progress }) =>
      heard.push(progress),
    )
    expect(heard).to.deep.equal([0, 50, 100])
    return result
  },
  'read resources, also one that is not there': async ({ requests }) => [
    await requests.readResource({ uri: 'test://static-text' }),
    await requests.readResource({ uri: 'test://template/1/data' }),
    await failureOf(requests.readResource({ uri: 'test://none' })),
  ],
  'get prompts, also one without its arguments': async ({ requests }) => [
    await requests.getPrompt({ name: 'test_simple_prompt' }),
    await requests.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } }),
    await failureOf(requests.getPrompt({ name: 'test_prompt_with_arguments' })),
  ],
  'complete the argument of a prompt and of a template': async ({ requests }) => [
    await requests.complete({
      ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
      argument: { name: 'arg1', value: 'a' },
    }),
    await requests.complete({
      ref: { type: 'ref/resource', uri: 'test://template/{id}/data' },
      argument: { name: 'id', value: 'o' },
    }),
  ],
}

const worksOfSessions: Readonly<Record<string, Work>> = {
  'ping, and set the log level': async ({ requests }) => [
    await requests.ping(),
    // The oldest server does not have the method.
    await failureOf(requests.setLoggingLevel('info')),
  ],
  'subscribe to a resource, and unsubscribe': async ({ requests }) => [
    await requests.subscribeResource({ uri: 'test://static-text' }),
    await requests.unsubscribeResource({ uri: 'test://static-text' }),
  ],
  'serve a tool that asks for a sample': async ({ requests }) => {
    const result = await requests.callTool({ name: 'test_sampling' })
    expect(JSON.stringify(result)).to.include('Sampled.')
    return result
  },
  // Since 2025-06-18; the client or the server may be older.
  'serve a tool that asks for input': ({ requests }) =>
    failureOf(requests.callTool({ name: 'test_elicitation' })),
  'cancel a call': async (client) => {
    const cancelling = new AbortController()
    const call = client.callWithProgress('test_wait', () => cancelling.abort('enough'), cancelling.signal)
    return [await failureOf(call), await client.requests.callTool({ name: 'test_cancelled' })]
  },
  'hear the server on the GET stream, and resume that when it is cut': async (client) => {
    const heard: unknown[] = []
    const [first, second] = [signalled(), signalled()]
    client.onLog((data) => {
      heard.push(data)
      if (data === 'before') first.resolve()
      if (data === 'lost') second.resolve()
    })
    await client.requests.callTool({ name: 'test_log', arguments: { line: 'before' } })
    await first.happened
    await client.requests.callTool({ name: 'test_log_and_cut', arguments: { line: 'lost' } })
    await second.happened
    return heard
  },
  'end the session': async (client) => {
    expect(client.sessionId()).to.be.a('string')
    await client.endSession()
    expect(client.sessionId()).to.equal(undefined)
    return failureOf(client.requests.listTools())
  },
}

/** The code of a JSON-RPC error or of an HTTP one; of a call that did not fail, its result. */
async function failureOf(act: Promise<unknown>): Promise<unknown> {
  return act.then(
    (value) => value,
    (error: { readonly code?: unknown }) => ({ failed: error.code }),
  )
}

/** The clients, and the servers that each of them is tried with. */
const clients: readonly (readonly [string, (url: string) => Promise<McpClient>, readonly string[]])[] = [
  ...handshakeRevisions.map(
    (revision) => [`SDK 1.x of ${revision}`, (url: string) => connectSdk1(revision, url), revisions] as const,
  ),
  ['SDK 2.x with a handshake', (url) => connectSdk2('legacy', url), revisions],
  ['SDK 2.x that probes', (url) => connectSdk2('auto', url), revisions],
  ['SDK 2.x without a handshake', (url) => connectSdk2({ pin: STATELESS }, url), [STATELESS]],
]

describe('an MCP client', function () {
  this.timeout(120_000)

  const routes = ofSuite(async () => startMcpRoutes(await startServerOfEachRevision()))

  for (const [who, connect, servers] of clients) {
    for (const server of servers) {
      it(`gets the same through the gateway as directly: ${who}, a server of ${server}`, async () => {
        const todo = server === STATELESS ? works : { ...works, ...worksOfSessions }
        const results: Record<string, unknown>[] = []
        for (const route of ['directly', 'through a gateway'] as const) {
          await using client = await connect(routes.to(server, route))
          const done: Record<string, unknown> = {}
          for (const [what, work] of Object.entries(todo)) done[what] = await work(client)
          results.push(done)
        }
        expect(results[1]).to.deep.equal(results[0])
      })
    }
  }

  it('without a handshake listens to the changes that the server agrees to, until it stops', async () => {
    for (const route of ['directly', 'through a gateway'] as const) {
      await using connected = await connectSdk2({ pin: STATELESS }, routes.to(STATELESS, route))
      const subscription = await connected.client.listen({ toolsListChanged: true })
      expect(subscription.honoredFilter).to.deep.equal({ toolsListChanged: true })
      await subscription.close()
      expect(await subscription.closed).to.equal('local')
    }
  })
})
