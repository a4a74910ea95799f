// Which clients are asked, beside those of the present SDKs, and what they are asked while the policy or the gateway ends.

import { expect } from 'chai'
import { sdkOf } from '../../support/mcp-sdks.js'
import { startHandClient } from './hand-client.js'
import { bothModes, idIn, routes, sharedBilling, startGateway, waiting } from './rig.js'

const yes = { action: 'accept', content: { confirm: true } }
const rule = { name: 'large', tools: ['*/*'], then: 'confirm', ask: 'Go on?' } as const
const pending = /Escalation esc_[0-9a-f]+.*[Rr]epeat/

describe('a call that waits for a person', function () {
  this.timeout(60_000)
  const billing = sharedBilling()

  for (const path of ['/mcp/billing', '/mcp'] as const) {
    const name = path === '/mcp' ? 'billing__refund' : 'refund'

    it(`is confirmed by a client of the SDK of 2025-06-18, which shows no pages: ${path}`, async () => {
      const sdk = await sdkOf('2025-06-18')
      const messages: string[] = []
      for (const [settings, expected] of [
        [{ rules: [rule] }, /refunded 1/],
        [waiting, pending],
      ] as const) {
        await using gateway = await startGateway(path, billing.urls.handshake, settings)
        const client = new sdk.Client(
          { name: 'test', version: '1' },
          { capabilities: { elicitation: { form: {}, url: {} } } as never },
        )
        if (sdk.ElicitRequestSchema === undefined) throw new Error('no elicitation')
        client.setRequestHandler(sdk.ElicitRequestSchema, ({ params }) => {
          messages.push(params.message)
          return yes as never
        })
        await client.connect(new sdk.StreamableHTTPClientTransport(new URL(gateway.url)) as never)
        const text = await client.callTool({ name, arguments: { amount: 1 } }).then(
          (result) => JSON.stringify(result),
          ({ message }: Error) => message,
        )
        expect(text).to.match(expected)
        await client.close()
      }
      expect(messages).to.have.length(1)
      expect(billing.refunds).to.deep.equal([1])
    })

    it(`goes on under the policy that a reload puts in force: ${path}`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const client = await startHandClient(gateway.url, {}, bothModes)
      const held = await Promise.all([1, 2].map((amount) => client.call(name, { amount })))
      const [first, second] = await Promise.all(held.map((call) => call.request('elicitation/create')))
      await gateway.reload(gateway.policy)
      await gateway.vote(idIn(first?.params ?? { message: '' }), 'approve')
      expect(JSON.stringify(await held[0]?.response())).to.contain('refunded 1')
      const tools = ['*/refund']
      await gateway.reload({ ...gateway.policy, rules: [{ name: 'never', tools, then: 'deny' }] })
      await gateway.vote(idIn(second?.params ?? { message: '' }), 'approve')
      expect(JSON.stringify(await held[1]?.response())).to.contain('rule:never')
      expect(billing.refunds).to.deep.equal([1])
    })

    for (const [kind, settings] of [
      ['a form', { rules: [rule] }],
      ['a page', waiting],
    ] as const) {
      it(`gets its response when the gateway shuts down while ${kind} is open: ${path}`, async () => {
        await using gateway = await startGateway(path, billing.urls.handshake, settings)
        const client = await startHandClient(gateway.url, {}, bothModes)
        const call = await client.call(name, { amount: 1 })
        await call.request('elicitation/create')
        const since = performance.now()
        await gateway.close()
        expect((await call.response()).error?.message).to.match(/which was not sent/)
        expect(performance.now() - since).to.be.below(3_000)
        expect(billing.refunds).to.deep.equal([])
      })
    }
  }

  it('is held beyond the time limit of a client of the SDK, which gets progress meanwhile', async () => {
    // Shorter than the call is held, until its second notification of progress.
    const limits = { timeout: 8_000, resetTimeoutOnProgress: true }
    const held = routes.map(async (route, at) => {
      await using gateway = await startGateway(route, billing.urls.handshake)
      let escalation = ''
      await using one = await gateway.connect((request) => {
        escalation = idIn(request)
        return { action: 'accept' }
      })
      const progress: number[] = []
      const onprogress = (event: { progress: number; message?: string }) => {
        expect(event.message).to.equal('Waiting for a person to decide')
        progress.push(event.progress)
        if (progress.length === 2) void gateway.vote(escalation, 'approve')
      }
      expect(await one.refund(at, { ...limits, onprogress }), route).to.equal(`refunded ${at}`)
      const [first = 0, second = 0, ...more] = progress
      expect(first).to.be.within(0, second - Number.EPSILON)
      expect(more).to.deep.equal([])
    })
    await Promise.all(held)
    expect(billing.refunds.toSorted()).to.deep.equal(routes.map((_, at) => at))
  })

  for (const path of ['/mcp/billing', '/mcp'] as const) {
    it(`is confirmed, and approved, if its server has no sessions: ${path}`, async () => {
      const settings = { ...waiting, rules: [rule, ...waiting.rules] }
      await using gateway = await startGateway(path, billing.urls.sessionless, settings)
      await using one = await gateway.connect(async (request) => {
        if (request.mode === 'url') await gateway.vote(idIn(request), 'approve')
        return yes
      })
      expect(await one.refund(1)).to.equal('refunded 1')
      expect(one.asked.map(({ mode = 'form' }) => mode)).to.deep.equal(['url', 'form'])
      expect(billing.refunds).to.deep.equal([1])
    })
  }

  it('gets the text, and no session, if its server has none and the client declares nothing', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.sessionless)
    const client = await startHandClient(gateway.url, {}, {})
    expect(client.sessionId).to.equal('')
    const call = await client.call('refund', { amount: 1 })
    expect(JSON.stringify(await call.response())).to.match(pending)
  })

  it('resumes no stream of a session that its server does not have', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.sessionless)
    const client = await startHandClient(gateway.url, {}, bothModes)
    expect(client.sessionId).to.match(/^svc\./)
    const { status } = await fetch(gateway.url, {
      headers: {
        accept: 'text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        'mcp-session-id': client.sessionId,
        'last-event-id': 'of-another',
      },
    })
    expect(status).to.equal(400)
  })
})
