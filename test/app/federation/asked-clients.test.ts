// What servers of 2026-07-28 ask clients of the handshake, and clients that choose their revision.
import { fileURLToPath } from 'node:url'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  type ElicitResult,
} from '@modelcontextprotocol/sdk/types.js'
import { acceptedContent, inputRequired, type ServerContext } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { connectSdk2 } from '../../support/mcp-clients.js'
import { startRevisionServer } from '../../support/mcp-revision-server.js'
import { startRedis } from '../../support/redis.js'
import { startRoundRobin } from '../../support/round-robin.js'
import { connect1 } from '../../support/sdk-clients.js'
import { signalled } from '../../support/signalled.js'
import { type StatelessServer, startStatelessServer } from '../../support/tool-servers.js'

const everything = {
  command: process.execPath,
  args: [
    fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js')),
    'stdio',
  ],
  isolate: 'session' as const,
}

describe('a client that chooses its revision', function () {
  this.timeout(60_000)

  for (const [revisions, isHandshake] of [
    ['all', false],
    ['handshake', true],
  ] as const) {
    it(`gets requests of servers and commands of the handshake, if ${revisions} revisions are offered`, async () => {
      await using server = await startRevisionServer('2025-11-25')
      await using gateway = await startTestGateway({
        targets: { server: server.url, everything },
        server: { mcp: { revisions } },
      })
      for (const [endpoint, name] of [
        ['/mcp', 'server__test_elicitation'],
        ['/mcp/everything', 'trigger-elicitation-request'],
      ] as const) {
        await using client = await connectSdk2('auto', `${gateway.url}${endpoint}`)
        expect(client.sessionId() !== undefined, endpoint).to.equal(isHandshake)
        const called = JSON.stringify(await client.requests.callTool({ name }))
        expect(called, endpoint).to.include('accept')
      }
    })
  }
})

const name = z.object({ name: z.string() })
const said = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] })
const elicit = (message: string) => inputRequired.elicit({ message, requestedSchema: name })

/** Asks for a name, and then for another and a sample at once. */
const askTwice = ({ mcpReq }: ServerContext) => {
  const first = acceptedContent(mcpReq.inputResponses, 'first', name)
  const state = mcpReq.requestState<string>()
  if (first !== undefined)
    return inputRequired({
      inputRequests: {
        second: elicit('Second?'),
        sample: inputRequired.createMessage({
          messages: [{ role: 'user', content: { type: 'text', text: 'Say.' } }],
          maxTokens: 10,
        }),
      },
      requestState: first.name,
    })
  const second = acceptedContent(mcpReq.inputResponses, 'second', name)
  if (second !== undefined) return said([state, second.name, Object.keys(mcpReq.inputResponses ?? {})])
  return inputRequired({ inputRequests: { first: elicit('First?') } })
}

describe('a client of the handshake', function () {
  this.timeout(60_000)
  let server: StatelessServer
  let gateway: TestGateway

  before(async () => {
    server = await startStatelessServer('asking', (asking) => {
      asking.registerTool('twice', {}, askTwice)
      asking.registerTool('forever', {}, () => inputRequired({ inputRequests: { again: elicit('Again?') } }))
      asking.registerTool('long', {}, () =>
        inputRequired({ inputRequests: { long: elicit('x'.repeat(8_000_000)), other: elicit('Other?') } }),
      )
      asking.registerTool('never', {}, () => new Promise(() => undefined))
      asking.registerTool('streamed', {}, async (ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken ?? ''
        await ctx.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress: ctx.mcpReq.inputResponses === undefined ? 1 : 2 },
        })
        return askTwice(ctx)
      })
      asking.registerTool('report', {}, async (ctx) => {
        const given = acceptedContent(ctx.mcpReq.inputResponses, 'given', name)
        await ctx.mcpReq.notify({
          method: 'notifications/progress',
          params: {
            progressToken: ctx.mcpReq._meta?.progressToken ?? '',
            progress: given === undefined ? 1 : 2,
          },
        })
        return given === undefined
          ? inputRequired({ inputRequests: { given: elicit('Given?') } })
          : said(given)
      })
    })
    gateway = await startTestGateway({
      targets: { asking: server.url },
      security: { egress_allowlist: ['good.example'] },
    })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  async function connect(
    respond: (message: string) => unknown,
    sampling = true,
    url = gateway.url,
  ): Promise<Client> {
    return connect1(`${url}/mcp`, {
      capabilities: { elicitation: {}, ...(sampling ? { sampling: {} } : {}) },
      prepare(client) {
        client.setRequestHandler(ElicitRequestSchema, ({ params }) => respond(params.message) as ElicitResult)
        if (!sampling) return
        client.setRequestHandler(CreateMessageRequestSchema, () => ({
          model: 'm',
          role: 'assistant',
          content: { type: 'text', text: 'Sampled.' },
        }))
      },
    })
  }
  const accept = (value: string) => ({ action: 'accept', content: { name: value } })
  const call = (client: Client, tool: string): Promise<string> =>
    client.callTool({ name: `asking__${tool}` }).then(
      ({ content }) => (content as { text: string }[])[0]?.text ?? '',
      ({ message }: Error) => message,
    )

  it('gets the requests for input in results of a server of 2026-07-28; each round is a recorded call', async () => {
    const before = gateway.records().length
    const client = await connect((message) => accept(message))
    expect(await call(client, 'twice')).to.equal('["First?","Second?",["second","sample"]]')
    const calls = gateway
      .records()
      .slice(before)
      .filter(({ tool }) => tool === 'twice@2.0.0')
    expect(calls.map(({ status }) => status)).to.deep.equal(['ok', 'ok', 'ok'])
    await client.close()
  })

  it('gets progress of each round of a streamed response', async () => {
    const client = await connect(() => accept('Ada'))
    const progress: number[] = []
    const result = await client.callTool({ name: 'asking__report' }, undefined, {
      onprogress: (made) => progress.push(made.progress),
    })
    expect(result.content).to.deep.equal(said({ name: 'Ada' }).content)
    expect(progress).to.deep.equal([1, 2])
    await client.close()
  })

  it('gets an error if its response is an error, if the policy denies its input, and if the server does not stop requesting input', async () => {
    const failing = await connect(() => {
      throw new Error('nobody is there')
    })
    expect(await call(failing, 'twice')).to.contain('nobody is there')
    await failing.close()
    const denied = await connect(() => accept('https://evil.example/'))
    expect(await call(denied, 'twice')).to.contain('egress_violation')
    expect(await call(denied, 'forever')).to.contain('egress_violation')
    await denied.close()
    const patient = await connect(() => accept('Ada'))
    expect(await call(patient, 'forever')).to.contain('too often')
    await patient.close()
  })

  it('may respond in each round later than the time limit of a call', async () => {
    await using limited = await startTestGateway({
      targets: { asking: server.url },
      security: { limits: { max_duration_ms: 1000 } },
    })
    const other = await connect(() => accept('Ada'), true, limited.url)
    // Each response comes after the end of another call that the limit has ended, and that began later.
    const client = await connect(
      async (message) => {
        expect(await call(other, 'never')).to.contain('duration_too_long')
        return accept(message)
      },
      true,
      limited.url,
    )
    for (const tool of ['twice', 'streamed'])
      expect(await call(client, tool), tool).to.equal('["First?","Second?",["second","sample"]]')
    await client.close()
    await other.close()
  })

  it('gets no requests that its capabilities do not include', async () => {
    const client = await connect((message) => accept(message), false)
    expect(await call(client, 'twice')).to.match(/sampling|cannot give/)
    await client.close()
  })

  it('may respond at another gateway with the same store', async () => {
    await using redis = await startRedis()
    const shared = { targets: { asking: server.url }, quotas: { adapter: 'redis', redisUrl: redis.url } }
    await using first = await startTestGateway(shared)
    await using second = await startTestGateway(shared)
    await using balancer = await startRoundRobin([first.url, second.url])
    const client = await connect((message) => accept(message), true, balancer.url)
    expect(await call(client, 'twice')).to.equal('["First?","Second?",["second","sample"]]')
    expect(await call(client, 'twice')).to.equal('["First?","Second?",["second","sample"]]')
    const responses = [first, second].map(
      (gateway) => gateway.records().filter(({ tool }) => tool.startsWith('federation/response')).length,
    )
    expect(responses.every((count) => count > 0)).to.equal(true)
    await client.close()
  })

  for (const how of ['leaves', 'cancels the request'] as const) {
    it(`that ${how} ends the wait for its input`, async () => {
      // A wait that goes on keeps the gateway from closing.
      await using closing = await startTestGateway({
        targets: { asking: server.url },
        server: { drainMs: 600_000 },
      })
      const asked = signalled()
      const client = await connect(
        () => {
          asked.resolve()
          return new Promise(() => undefined)
        },
        true,
        closing.url,
      )
      const aborted = new AbortController()
      const calling = client
        .callTool({ name: 'asking__twice' }, undefined, { signal: aborted.signal })
        .catch((error: Error) => error.message)
      await asked.happened
      if (how === 'leaves') await client.close()
      else aborted.abort('enough')
      expect(await calling).to.match(/enough|closed/)
      await client.close()
    })
  }

  it('may leave while it has not read the requests of its server', async () => {
    const closing = await startTestGateway({ targets: { asking: server.url } })
    const leaving = new AbortController()
    const post = (message: object, headers: Record<string, string> = {}) =>
      fetch(`${closing.url}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'text/event-stream, application/json',
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
        signal: leaving.signal,
      })
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 't', version: '1' },
    }
    const begun = await post({ method: 'initialize', params })
    await begun.text()
    const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
    const called = await post({ method: 'tools/call', params: { name: 'asking__long' } }, session)
    expect(new TextDecoder().decode((await called.body?.getReader().read())?.value)).to.contain(
      'elicitation/create',
    )
    // It would end the process of the gateway.
    const unhandled: unknown[] = []
    const onUnhandled = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', onUnhandled)
    leaving.abort()
    await closing[Symbol.asyncDispose]()
    process.off('unhandledRejection', onUnhandled)
    expect(unhandled).to.deep.equal([])
  })
})
