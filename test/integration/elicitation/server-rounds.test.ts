// A server that asks for input too: each round is a call of its own, and the gateway's state and the server's are kept apart.
import { expect } from 'chai'
import { rejectionOf } from '../../support/rejection.js'
import { requestOf, startAsking } from '../server-requests/asking.js'
import { type Round, roundAt } from './hand-client.js'
import { idIn, startGateway, waiting } from './rig.js'

const accept = { action: 'accept' }
const rules = [{ ...waiting.rules[0], tools: ['*/ask'] }]

interface OwnRound extends Omit<Round, 'result'> {
  readonly result: {
    readonly content?: readonly { readonly text: string }[]
    readonly requestState: string
    readonly inputRequests: Readonly<Record<string, { readonly params: { message: string; url: string } }>>
  }
}

describe('a call that waits for a person, of a tool whose server asks for input', function () {
  this.timeout(60_000)

  for (const path of ['/mcp/billing', '/mcp'] as const) {
    it(`needs an approval for each round, and takes no input of one in the other: ${path}`, async () => {
      await using asking = await startAsking()
      await using gateway = await startGateway(path, asking.urls.stateless, { ...waiting, rules })
      const send = roundAt(gateway.url, path === '/mcp' ? 'billing__ask' : 'ask')
      const round = async (params: object): Promise<OwnRound> => {
        const all = { arguments: requestOf.elicitation_form, ...params }
        return (await send(all)) as unknown as OwnRound
      }
      const approved = async ({ result }: OwnRound): Promise<object> => {
        await gateway.vote(idIn(result.inputRequests['svc']?.params ?? { message: '' }), 'approve')
        return { requestState: result.requestState, inputResponses: { svc: accept } }
      }
      const first = await approved(await round({}))
      const asked = await round(first)
      const [key = ''] = Object.keys(asked.result.inputRequests)
      expect(key).not.to.equal('svc')
      const input = { action: 'accept', content: { branch: 'main' } }
      const own = { requestState: asked.result.requestState, inputResponses: { [key]: input } }
      const second = await round(own)
      expect(Object.keys(second.result.inputRequests)).to.deep.equal(['svc'])
      const { requestState } = second.result
      for (const mixed of [
        { requestState, inputResponses: { svc: accept, [key]: input } },
        { requestState, inputResponses: { [key]: input } },
        { requestState: [requestState], inputResponses: { svc: accept } },
        { ...own, inputResponses: { ...own.inputResponses, svc: accept } },
        first,
      ]) {
        const { result, error } = await round(mixed)
        // Input that is a part of the server's round is a part of the call: it waits for an approval of its own.
        if (error === undefined) expect(Object.keys(result.inputRequests)).to.deep.equal(['svc'])
      }
      const done = await round(await approved(second))
      expect(done.result.content?.[0]?.text).to.equal(JSON.stringify([input, 'of the server']))
      expect((await round(await approved(second))).error?.message).to.contain('The approval was for one call')
    })
  }

  for (const route of ['/mcp', 'svc stdio'] as const) {
    it(`ends in one call of a client with a session, whose person gives the input: ${route}`, async () => {
      await using asking = await startAsking()
      await using gateway = await startGateway(route, asking.urls.stateless, { ...waiting, rules })
      const input = { action: 'accept', content: { branch: 'main' } }
      await using one = await gateway.connect(async (request) => {
        if (request.mode !== 'url') return input
        await gateway.vote(idIn(request), 'approve')
        return accept
      })
      const call = { name: 'billing__ask', arguments: requestOf.elicitation_form }
      const { content } = await one.client.callTool(call)
      expect((content as { text: string }[])[0]?.text).to.equal(JSON.stringify([input, 'of the server']))
      expect(one.asked.map(({ mode = 'form' }) => mode)).to.deep.equal(['url', 'form', 'url'])
      const approvals = one.asked.flatMap((request) => (request.mode === 'url' ? idIn(request) : []))
      expect(one.completed).to.deep.equal(approvals)
      expect(new Set(approvals).size).to.equal(2)
    })
  }

  it('is not sent with its input if that is not approved, and says so', async () => {
    await using asking = await startAsking()
    await using gateway = await startGateway('/mcp', asking.urls.stateless, { ...waiting, rules })
    let approvals = 0
    await using one = await gateway.connect(async (request) => {
      if (request.mode !== 'url') return { action: 'accept', content: { branch: 'main' } }
      await gateway.vote(idIn(request), approvals++ === 0 ? 'approve' : 'reject')
      return accept
    })
    const call = { name: 'billing__ask', arguments: requestOf.elicitation_form }
    const { message } = await rejectionOf(one.client.callTool(call))
    expect(message).to.contain('decided against')
    expect(approvals).to.equal(2)
  })
})
