// What servers of the handshake ask clients of 2026-07-28: they get each request in a result, and repeat the call.
import {
  CreateMessageResultSchema,
  type ElicitResult,
  ElicitResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { lastMessage, postStateless } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { connect2 } from '../../support/sdk-clients.js'
import { until } from '../../support/stdio-target.js'
import { startSessionServer } from '../../support/tool-servers.js'

describe('a client of 2026-07-28', function () {
  this.timeout(60_000)

  const server = ofSuite(async () =>
    startSessionServer('asking', (asking) => {
      asking.registerTool('twice', {}, async ({ sendRequest, sendNotification, _meta }) => {
        const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
        const said: unknown[] = []
        for (const message of ['First?', 'Second?']) {
          await sendNotification({
            method: 'notifications/progress',
            params: { progressToken: _meta?.progressToken ?? '', progress: 10 * said.length + 10 },
          })
          const params = { message, requestedSchema }
          const { action, content } = await sendRequest(
            { method: 'elicitation/create', params },
            ElicitResultSchema,
          )
          said.push(content?.['name'] ?? action)
        }
        const sampled = await sendRequest(
          { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
          CreateMessageResultSchema,
        )
        return { content: [{ type: 'text', text: JSON.stringify([...said, sampled.model]) }] }
      })
      asking.registerTool('can', {}, () => ({
        content: [{ type: 'text', text: JSON.stringify(asking.server.getClientCapabilities() ?? {}) }],
      }))
    }),
  )
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: { asking: server.url },
      security: { egress_allowlist: ['good.example'], limits: { max_duration_ms: 60_000 } },
    }),
  )

  const all = { elicitation: {}, sampling: {} }

  async function connect(respond: (message: string) => ElicitResult, capabilities: object = all) {
    const client = await connect2(`${gateway.url}/mcp`, { capabilities })
    if (capabilities === all) {
      client.setRequestHandler('elicitation/create', ({ params }) => respond(params.message))
      client.setRequestHandler('sampling/createMessage', () => ({
        model: 'm',
        role: 'assistant',
        content: { type: 'text', text: 'Sampled.' },
      }))
    }
    return client
  }

  type Called = Awaited<ReturnType<typeof connect>>
  const call = (client: Called, progress: number[] = []): Promise<string> =>
    client
      .callTool(
        { name: 'asking__twice', arguments: {} },
        { onprogress: (made) => progress.push(made.progress) },
      )
      .then(
        ({ content }) => JSON.stringify(content),
        ({ message }: Error) => message,
      )

  it('gets the requests of a server of the handshake in results; the call continues with the input', async () => {
    const before = gateway.records().length
    const client = await connect((message) => ({ action: 'accept', content: { name: message } }))
    const progress: number[] = []
    expect(await call(client, progress)).to.contain(String.raw`[\"First?\",\"Second?\",\"m\"]`)
    // The SDK reports the number of each round too.
    expect(progress.filter((made) => made >= 10)).to.deep.equal([10, 20])
    const records = gateway.records().slice(before)
    expect(records.filter(({ tool }) => tool === 'twice@1.0.0').map(({ status }) => status)).to.deep.equal([
      'ok',
    ])
    expect(records.filter(({ tool }) => tool.startsWith('response@'))).to.have.length(3)
    const declining = await connect(() => ({ action: 'decline' }))
    expect(await call(declining)).to.contain(String.raw`[\"decline\",\"decline\",\"m\"]`)
    await client.close()
    await declining.close()
  })

  it('gets an error if the policy denies its input, and the call ends at the server', async () => {
    const client = await connect(() => ({ action: 'accept', content: { name: 'https://evil.example/' } }))
    expect(await call(client)).to.contain('egress_violation')
    await until(() => server.methods.includes('notifications/cancelled'))
    await client.close()
  })

  it('cannot continue the call of another client, a call twice, or a call with other params', async () => {
    const request = async (params: object, capabilities: object = all) => {
      const call = { name: 'asking__twice', arguments: {}, ...params }
      const response = await postStateless(`${gateway.url}/mcp`, 'tools/call', call, { capabilities })
      return lastMessage<{ result?: { requestState: string }; error?: { message: string } }>(response)
    }
    const { result } = await request({})
    const requestState = result?.requestState ?? ''
    const inputResponses = { 'request-1': { action: 'accept', content: { name: 'Ada' } } }
    const round = { requestState, inputResponses }
    expect((await request(round, { ...all, roots: {} })).error?.message).to.contain('No call waits')
    expect((await request({ ...round, arguments: { other: 1 } })).error?.message).to.contain('No call waits')
    const [one, two] = await Promise.all([request(round), request(round)])
    expect([one.error?.message, two.error?.message].filter(Boolean)).to.have.length(1)
  })

  it('without capabilities for requests has no capabilities at such a server', async () => {
    const client = await connect(() => ({ action: 'decline' }), {})
    const { content } = await client.callTool({ name: 'asking__can', arguments: {} })
    expect(content).to.deep.equal([{ type: 'text', text: '{}' }])
    await client.close()
  })
})
