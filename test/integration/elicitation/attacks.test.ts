// What a client, another caller or a change in between can do to a call that waits for a person: nothing is sent.
import { expect } from 'chai'
import { TestIssuer } from '../../support/issuer.js'
import { ofSuite } from '../../support/parts.js'
import { until } from '../../support/stdio-target.js'
import { type Round, roundAt, startHandClient } from './hand-client.js'
import { adminToken, bothModes, idIn, startBilling, startGateway, waiting } from './rig.js'

const accept = { action: 'accept' }

describe('a call that waits for a person, attacked', function () {
  this.timeout(60_000)

  const billing = ofSuite(() => startBilling())
  const issuer = ofSuite(() => TestIssuer.start())
  beforeEach(() => {
    billing.refunds.length = 0
  })

  const oidc = () => ({
    ...waiting,
    authn: { oidc: issuer.oidc },
    admin: { port: 0, roles: { reviewer: ['approver'] } },
  })
  const bearer = async (user: string) =>
    `Bearer ${await issuer.sign({ sub: user, email: `${user}@example.com` })}`

  for (const path of ['/mcp/billing', '/mcp'] as const) {
    it(`is not ended at ${path} by another caller's response to its elicitation, nor by an unknown one`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake, oidc())
      const ada = await startHandClient(gateway.url, { authorization: await bearer('ada') }, bothModes)
      const bob = await startHandClient(gateway.url, { authorization: await bearer('bob') }, bothModes)
      const call = await ada.call(path === '/mcp' ? 'billing__refund' : 'refund', { amount: 1 })
      const asked = await call.request('elicitation/create')
      const refusal = { jsonrpc: '2.0', id: asked.id, result: { action: 'decline' } }
      const foreign = await bob.post(refusal)
      const inSession = await bob.post(refusal, ada.sessionId)
      const unknown = await ada.post({ ...refusal, id: `${asked.id}0` })
      expect([foreign.status, inSession.status]).to.satisfy((all: number[]) =>
        all.every((one) => one !== 200),
      )
      expect(inSession.status).to.equal(404)
      expect(unknown.status).to.be.oneOf([202, 400])
      expect(call.messages.some((message) => 'result' in message || 'error' in message)).to.equal(false)
      expect((await ada.post(refusal)).status).to.equal(202)
      expect(JSON.stringify(await call.response())).to.contain('ESCALATION_PENDING')
      expect(billing.refunds).to.deep.equal([])
    })

    it(`is not sent at ${path} once its client has cancelled it or left, and the approval stays`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const name = path === '/mcp' ? 'billing__refund' : 'refund'
      const client = await startHandClient(gateway.url, {}, bothModes)
      const cancelled = await client.call(name, { amount: 1 })
      const first = await cancelled.request('elicitation/create')
      await client.post({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: cancelled.id },
      })
      await cancelled.ended
      await gateway.vote(idIn(first.params), 'approve')
      const left = await client.call(name, { amount: 2 })
      const second = await left.request('elicitation/create')
      left.leave()
      await gateway.vote(idIn(second.params), 'approve')
      const again = await client.call(name, { amount: 1 })
      expect(JSON.stringify(await again.response())).to.contain('refunded 1')
      expect(billing.refunds).to.deep.equal([1])
    })

    it(`is not sent at ${path} once its session has ended, and ends at once`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const client = await startHandClient(gateway.url, {}, bothModes)
      const call = await client.call(path === '/mcp' ? 'billing__refund' : 'refund', { amount: 1 })
      const { params } = await call.request('elicitation/create')
      await client.end()
      expect(JSON.stringify(await call.response())).to.contain('ESCALATION_PENDING')
      await gateway.vote(idIn(params), 'approve')
      expect(billing.refunds).to.deep.equal([])
    })

    it(`is asked about and approved alone at ${path}, though another one has its id`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const name = path === '/mcp' ? 'billing__refund' : 'refund'
      const client = await startHandClient(gateway.url, {}, bothModes)
      const call = await client.call(name, { amount: 1 })
      const { params } = await call.request('elicitation/create')
      const other = await client.call(name, { amount: 2 }, {}, call.id)
      const asked = await other.request('elicitation/create')
      await gateway.vote(idIn(params), 'approve')
      expect(JSON.stringify(await call.response())).to.contain('refunded 1')
      expect(billing.refunds).to.deep.equal([1])
      await gateway.vote(idIn(asked.params), 'approve')
      expect(JSON.stringify(await other.response())).to.contain('refunded 2')
    })

    it(`is not held at ${path} with more bytes than its caller may keep`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const client = await startHandClient(gateway.url, {}, bothModes)
      const note = 'x'.repeat(1_400_000)
      const call = await client.call(path === '/mcp' ? 'billing__refund' : 'refund', { amount: 1, note })
      expect(JSON.stringify(await call.response())).to.contain('ESCALATION_PENDING')
      expect(call.messages).to.have.length(1)
    })

    it(`holds 20 calls of one caller at ${path}, and the others get their response at once`, async () => {
      await using gateway = await startGateway(path, billing.urls.handshake)
      const name = path === '/mcp' ? 'billing__refund' : 'refund'
      const client = await startHandClient(gateway.url, {}, bothModes)
      const calls = await Promise.all(Array.from({ length: 60 }, () => client.call(name, { amount: 1 })))
      const ended = () => calls.filter(({ messages }) => messages.some((message) => 'error' in message))
      const asked = () =>
        calls.filter(({ messages }) => messages.some(({ method }) => method === 'elicitation/create'))
      await until(() => ended().length === 40)
      await until(() => asked().length === 20)
      const [request] = await Promise.all([asked()[0]?.request('elicitation/create')])
      await gateway.vote(idIn(request?.params ?? { message: '' }), 'reject')
      await until(() => ended().length === 60)
      const next = await client.call(name, { amount: 2 })
      await next.request('elicitation/create')
      next.leave()
    })
  }

  it('runs once, however often its state is sent back', async () => {
    for (const path of ['/mcp/billing', '/mcp'] as const) {
      billing.refunds.length = 0
      await using gateway = await startGateway(path, billing.urls.stateless)
      const states: string[] = []
      const round = roundAt(gateway.url, path === '/mcp' ? 'billing__refund' : 'refund')
      const first = await round({})
      const { requestState, inputRequests } = first.result
      states.push(requestState)
      const back = { requestState, inputResponses: { svc: accept } }
      await gateway.vote(idIn(inputRequests.svc.params), 'approve')
      const results = await Promise.all(Array.from({ length: 5 }, () => round(back)))
      expect(billing.refunds).to.deep.equal([1])
      results.push(await round(back))
      const refused = results.filter(({ error }) => error !== undefined)
      expect(refused).to.have.length(5)
      for (const { error } of refused) expect(error?.message).to.contain('The approval was for one call')
      const { json } = await gateway.admin('/api/escalations')
      expect(json['escalations']).to.have.length(1)
    }
  })

  it('is not sent if its client declines, though it is approved, until it is repeated', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.stateless)
    const round = roundAt(gateway.url, 'refund')
    for (const response of [{ action: 'decline' }, { action: 'cancel' }, {}]) {
      const { requestState, inputRequests } = (await round({})).result
      await gateway.vote(idIn(inputRequests.svc.params), 'approve')
      const declined = await round({ requestState, inputResponses: { svc: response } })
      expect(declined.error?.message).to.contain('the person at the client declined it')
      expect(billing.refunds).to.deep.equal([])
      expect(JSON.stringify(await round({}))).to.contain('refunded 1')
      billing.refunds.length = 0
    }
  })

  it('is confirmed for one call, and for the text that was shown', async () => {
    const rule = {
      name: 'large',
      tools: ['*/refund'],
      then: 'confirm',
      ask: 'Refund {args.amount}?',
    } as const
    const yes = { action: 'accept', content: { confirm: true } }
    await using gateway = await startGateway('/mcp/billing', billing.urls.stateless, { rules: [rule] })
    const round = roundAt(gateway.url, 'refund')
    const first = (await round({})).result
    const back = { requestState: first.requestState, inputResponses: { svc: yes } }
    const results = await Promise.all(Array.from({ length: 5 }, () => round(back)))
    expect(billing.refunds).to.deep.equal([1])
    expect(results.filter(({ error }) => error?.message.includes('has been used'))).to.have.length(4)
    const { requestState } = (await round({})).result
    await gateway.reload({ ...gateway.policy, rules: [{ ...rule, ask: 'Refund {args.amount} EUR?' }] })
    const asked = await round({ requestState, inputResponses: { svc: yes } })
    expect(asked.result.inputRequests.svc.params.message).to.contain('Refund 1 EUR?')
    expect(billing.refunds).to.deep.equal([1])
    // What the rule reads and the form cannot show is a part of what is confirmed, too.
    const when = 'params._meta["com.example/to"] != ""'
    await gateway.reload({ ...gateway.policy, rules: [{ ...rule, when }] })
    const long = { arguments: { amount: 1, note: 'x'.repeat(3_000) } }
    const shown = (await round(long, { 'com.example/to': 'ada' })).result
    const reply = { ...long, requestState: shown.requestState, inputResponses: { svc: yes } }
    const other = await round(reply, { 'com.example/to': 'bob' })
    expect(other.result).to.have.property('inputRequests')
    expect(billing.refunds).to.deep.equal([1])
  })

  it('does not open a state of another caller or call, nor take more responses than it asked for', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.stateless, oidc())
    const round = roundAt(gateway.url, 'refund', { authorization: await bearer('ada') })
    const bob = roundAt(gateway.url, 'refund', { authorization: await bearer('bob') })
    const { requestState } = (await round({})).result
    const inputResponses = { svc: accept }
    const attacks: Readonly<Record<string, Promise<Round>>> = {
      'another caller': bob({ requestState, inputResponses }),
      'other arguments': round({ requestState, inputResponses, arguments: { amount: 2 } }),
      'a changed state': round({ requestState: `${requestState.slice(0, -2)}AA`, inputResponses }),
      'an own state': round({ requestState: 'svc1.AAAA', inputResponses }),
      'more responses': round({ requestState, inputResponses: { ...inputResponses, q: accept } }),
    }
    for (const [name, attack] of Object.entries(attacks)) {
      expect((await attack).error, name).to.include({ code: -32602 })
    }
    expect(billing.refunds).to.deep.equal([])
  })

  it('is rejected, and not opened anew, if its state comes back after the expiry', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.stateless, {
      ...waiting,
      security: { side_effects: { approve_high_risk: true, human_escalation: { ttl_sec: 1 } } },
    })
    const round = roundAt(gateway.url, 'refund')
    const { requestState, inputRequests } = (await round({})).result
    const id = idIn(inputRequests.svc.params)
    const states: unknown[] = []
    while (states.at(-1) !== 'rejected') {
      states.push((await gateway.admin(`/api/escalations/${id}`)).json['status'])
    }
    const late = await round({ requestState, inputResponses: { svc: accept } })
    expect(late.error?.message).to.contain('Nobody approved billing/refund in time')
    const { json } = await gateway.admin('/api/escalations')
    expect(json['escalations']).to.have.length(1)
    expect(billing.refunds).to.deep.equal([])
  })

  it('keeps the token of the admin listener out of what the client gets', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.handshake)
    const client = await startHandClient(gateway.url, {}, bothModes)
    const call = await client.call('refund', { amount: 1 })
    await call.request('elicitation/create')
    call.leave()
    expect(JSON.stringify(call.messages)).not.to.contain(adminToken)
  })
})
