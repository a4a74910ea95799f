import { EventEmitter, once } from 'node:events'
import { canonicalize, type JsonObject } from '@svc/core/json'
import { issueMandates, type MandateShape } from '@svc/plugin-ap2/dev'
import { expect } from 'chai'
import type { GatewayOptions } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { ofEachTest } from '../../support/parts.js'
import { until } from '../../support/redis.js'
import { startUpstream, type UpstreamCall } from '../../support/upstream.js'
import { args, binding, issuance, issuer, section } from './rig.js'

type Ap2 = { readonly verified: boolean; readonly reason?: string; readonly mandates?: readonly JsonObject[] }

describe('a gateway with mandates', () => {
  let gateway: TestGateway

  const upstream = ofEachTest(() => startUpstream())

  afterEach(() => gateway[Symbol.asyncDispose]())

  async function start(over: object = {}, more: Partial<GatewayOptions> = {}): Promise<void> {
    gateway = await startTestGateway({
      targets: { shop: upstream.url },
      ap2: { ...section, ...over },
      ...more,
    })
  }

  async function bundle(shape: MandateShape = 'chain', over: object = {}): Promise<Record<string, string>> {
    const issuedAt = Math.floor(Date.now() / 1000)
    const members = await issueMandates(shape, { ...issuance, issuedAt, ...over })
    return { 'x-ap2-bundle': Buffer.from(canonicalize({ ...members })).toString('base64url') }
  }

  async function buy(headers: Record<string, string> = {}, changed: object = {}) {
    const response = await gateway.invoke('/mcp/shop/buy@1.0.0', { ...args, ...changed }, headers)
    return {
      status: response.status,
      body: (await response.json()) as Record<string, unknown>,
      headers: response.headers,
    }
  }

  const ap2Of = (index: number) => gateway.records().at(index)?.agentMetadata?.['ap2'] as Ap2 | undefined

  for (const shape of ['chain', 'jws', 'v01'] as const) {
    it(`sends a purchase with mandates as ${shape} once`, async () => {
      await start(
        shape === 'v01'
          ? { tools: { bind: { 'shop/buy': { ...binding, items: { list: '/labels' } } } } }
          : {},
      )
      const headers = await bundle(shape)
      const labels = { labels: ['shoe', 'lace', 'lace'] }
      expect((await buy(headers, labels)).status).to.equal(200)
      const again = await buy(headers, labels)
      expect(again.status).to.equal(403)
      expect(again.body).to.have.property('denial_reason', 'ap2_replayed')
      expect(upstream.calls).to.have.lengthOf(1)
      const [first, second] = gateway.records()
      expect(first?.policy?.decision).to.equal('allow')
      expect(second?.policy?.decision).to.equal('deny')
      expect(second?.risk_tags).to.deep.equal(['ap2_replayed'])
      expect(ap2Of(0)?.mandates?.map(({ issuer: by, subject }) => [by, subject])).to.deep.equal([
        [issuer.did, 'user-1'],
        [issuer.did, 'user-1'],
      ])
    })
  }

  it('passes verified mandates on to the upstream, and no other ones', async () => {
    await start({ mode: 'observe' })
    const forged = { 'x-ap2-verified': 'true', 'x-ap2-issuer': 'me' }
    await buy({ ...(await bundle()), ...forged })
    await buy({ ...(await bundle('chain', { audience: 'other' })), ...forged })
    const [verified, refused] = upstream.calls.map(({ headers }) => headers)
    expect(verified).to.include({ 'x-ap2-verified': 'true', 'x-ap2-issuer': `${issuer.did},${issuer.did}` })
    expect(verified).to.include({ 'x-ap2-subject': 'user-1,user-1' })
    expect(verified?.['x-ap2-mandate-digest']).to.match(/^[0-9a-f]{64},[0-9a-f]{64}$/)
    expect(verified).to.have.property('x-ap2-bundle')
    expect(Object.keys(refused ?? {}).filter((name) => name.startsWith('x-ap2'))).to.deep.equal([])
    expect(ap2Of(1)).to.deep.equal({ verified: false, reason: 'ap2_wrong_audience' })
  })

  it('records nothing as verified that a caller states', async () => {
    await start()
    const state = Buffer.from(JSON.stringify({ metadata: { ap2: { verified: true }, team: 'x' } })).toString(
      'base64url',
    )
    await gateway.invoke('/mcp/shop/search@1.0.0', {}, { 'x-agent-state': state })
    expect(gateway.records()[0]?.agentMetadata).to.deep.equal({ team: 'x' })
  })

  it('needs a mandate for side effects only, if the policy says so', async () => {
    await start()
    expect((await gateway.invoke('/mcp/shop/search@1.0.0')).status).to.equal(200)
    const { status, body } = await buy()
    expect(status).to.equal(403)
    expect(body).to.have.property('denial_reason', 'ap2_missing')
  })

  describe('for tools that tools.allow names', () => {
    const tools = { ...section.tools, allow: ['shop/s*', 'shop/buy'] }
    const denyOthers = { deny_on: ['egress_violation'] }
    const cases = [
      ['full', 'search', {}, {}, 'ap2_missing'],
      ['full', 'Search', {}, {}, 'ap2_missing'],
      ['full', 'search%40x', {}, {}, 'ap2_missing'],
      ['full', 'buy%40x', {}, {}, 'ap2_tool_not_allowed'],
      ['full', 'find', {}, {}, undefined],
      ['full', 'pay', {}, {}, 'ap2_tool_not_allowed'],
      ['full', 'pay', {}, { enforcement: denyOthers }, 'ap2_tool_not_allowed'],
      ['full', 'find', { method: 'DELETE' }, {}, 'ap2_tool_not_allowed'],
      ['full', 'find', { Method: 'DELETE' }, {}, 'ap2_tool_not_allowed'],
      ['partial', 'search', {}, {}, undefined],
      ['partial', 'pay', {}, {}, 'ap2_tool_not_allowed'],
      ['partial', 'pay', {}, { enforcement: denyOthers }, undefined],
      ['observe', 'pay', {}, {}, undefined],
      ['', 'pay', {}, {}, undefined],
    ] as const
    for (const [mode, tool, given, more, reason] of cases) {
      const policy = `${JSON.stringify(mode)} ${JSON.stringify(more)}`
      it(`${policy}: ${tool} ${JSON.stringify(given)} is ${reason ?? 'sent'}`, async () => {
        await start({ mode, tools }, more as Partial<GatewayOptions>)
        const response = await gateway.invoke(`/mcp/shop/${tool}@1.0.0`, given)
        const { denial_reason } = (await response.json()) as { denial_reason?: string }
        expect(denial_reason).to.equal(reason)
        expect(upstream.calls).to.have.lengthOf(reason === undefined ? 1 : 0)
      })
    }
  })

  describe('modes', () => {
    const lax = { enforcement: { deny_on: ['egress_violation'] } }
    const cases = [
      ['', {}, 403, 'deny'],
      ['', lax, 200, 'reported'],
      ['partial', lax, 200, 'reported'],
      ['partial', {}, 403, 'deny'],
      ['full', lax, 403, 'deny'],
      ['full', { enforcement: { mode: 'observe' } }, 200, 'would_deny'],
      ['observe', {}, 200, 'would_deny'],
    ] as const
    for (const [mode, more, status, effect] of cases) {
      it(`${JSON.stringify(mode)} with ${JSON.stringify(more)}: a bad mandate is ${effect}`, async () => {
        await start({ mode }, more as Partial<GatewayOptions>)
        expect((await buy(await bundle('jws', { audience: 'other' }))).status).to.equal(status)
        expect(gateway.records()[0]?.findings).to.have.nested.property('[0].effect', effect)
      })
    }

    it('observe: a mandate that was used is reported, and the call goes on', async () => {
      await start({ mode: 'observe' })
      const headers = await bundle()
      expect([(await buy(headers)).status, (await buy(headers)).status]).to.deep.equal([200, 200])
      expect(gateway.records()[1]?.findings).to.have.nested.property('[0].effect', 'would_deny')
      expect(gateway.records()[1]?.policy?.decision).to.equal('allow')
      expect(upstream.calls[0]?.headers).to.have.property('x-ap2-verified')
      expect(upstream.calls[1]?.headers).to.not.have.any.keys('x-ap2-verified', 'x-ap2-bundle')
    })

    it('enabled: false reads no mandate', async () => {
      await start({ enabled: false, mode: '' })
      expect((await buy({ 'x-ap2-bundle': 'nonsense' })).status).to.equal(200)
    })
  })

  it('refuses arguments that are not those of the cart', async () => {
    await start()
    for (const changed of [{ amount: 1 }, { card: 'card_2' }, { lines: [] }]) {
      const { body } = await buy(await bundle(), changed)
      expect(body).to.have.property('denial_reason', 'ap2_cart_mismatch')
    }
    expect(upstream.calls).to.deep.equal([])
  })

  it('reads mandates in their own headers, and refuses those that differ from the bundle', async () => {
    await start()
    const issuedAt = Math.floor(Date.now() / 1000)
    const { checkout, payment } = await issueMandates('jws', { ...issuance, issuedAt })
    const other = await issueMandates('jws', { ...issuance, issuedAt })
    const bundled = { 'x-ap2-bundle': JSON.stringify({ cartMandate: checkout, payment }) }
    const conflict = await buy({ 'x-ap2-cart-mandate': String(other['checkout']), ...bundled })
    expect(conflict.body).to.have.property('denial_reason', 'ap2_mandate_conflict')
    const same = await buy({ 'x-ap2-cart-mandate': String(checkout), ...bundled })
    expect(same.status).to.equal(200)
  })

  it('compares the arguments of a name that a server could take for a bound one', async () => {
    await start()
    const pay = async (given: object) => {
      const response = await gateway.invoke('/mcp/shop/Buy@1.0.0', { ...args, ...given }, await bundle())
      return ((await response.json()) as { denial_reason?: string }).denial_reason
    }
    expect(await pay({ amount: args.amount + 1 })).to.equal('ap2_cart_mismatch')
    expect(await pay({})).to.equal(undefined)
  })

  it('refuses a card for which no mandate was presented', async () => {
    await start()
    const issuedAt = Math.floor(Date.now() / 1000)
    const { checkout } = await issueMandates('jws', { ...issuance, issuedAt })
    const { body } = await buy({ 'x-ap2-cart-mandate': String(checkout) }, { card: 'card_2' })
    expect(body).to.include({ denial_reason: 'ap2_cart_mismatch', sent: false })
  })

  it('takes an intent of v0.1 for information only', async () => {
    await start()
    const intent = JSON.stringify({
      natural_language_description: 'shoes',
      intent_expiry: '2030-01-01T00:00:00Z',
    })
    const { body } = await buy({ 'x-ap2-intent-mandate': intent })
    expect(body).to.have.property('denial_reason', 'ap2_missing')
    expect((await buy({ 'x-ap2-intent-mandate': intent, ...(await bundle()) })).status).to.equal(200)
    expect(ap2Of(1)).to.have.property('unsigned_intents').with.lengthOf(1)
  })

  it('gives a mandate back when the call was not sent', async () => {
    await start({}, { targets: { shop: 'http://127.0.0.1:1' } })
    const headers = await bundle()
    expect((await buy(headers)).body).to.have.property('error', 'UPSTREAM_UNREACHABLE')
    expect((await buy(headers)).body).to.have.property('error', 'UPSTREAM_UNREACHABLE')
  })

  it('uses a mandate once if many calls come at the same time', async () => {
    await start()
    const headers = await bundle()
    const responses = await Promise.all(Array.from({ length: 8 }, () => buy(headers)))
    expect(responses.filter(({ status }) => status === 200)).to.have.lengthOf(1)
    expect(upstream.calls).to.have.lengthOf(1)
  })

  describe('with idempotency keys', () => {
    it('responds to a repeat as before, without using the mandate again', async () => {
      await start({}, { dedupe: {} })
      const headers = { ...(await bundle()), 'idempotency-key': 'order-1' }
      expect((await buy(headers)).status).to.equal(200)
      const again = await buy(headers)
      expect(again.status).to.equal(200)
      expect(again.headers.get('x-dedupe')).to.equal('replay')
      expect(upstream.calls).to.have.lengthOf(1)
    })

    for (const more of [{}, { dedupe: {} }]) {
      it(`refuses another mandate under the key with ${JSON.stringify(more)}`, async () => {
        await start({}, more)
        const key = { 'idempotency-key': 'order-1' }
        expect((await buy({ ...(await bundle()), ...key })).status).to.equal(200)
        const other = await buy({ ...(await bundle()), ...key })
        expect(other.body).to.have.property('denial_reason', 'ap2_idempotency_mismatch')
      })
    }

    it('refuses the mandate under another key', async () => {
      await start({}, { dedupe: {} })
      const headers = await bundle()
      expect((await buy({ ...headers, 'idempotency-key': 'order-1' })).status).to.equal(200)
      const other = await buy({ ...headers, 'idempotency-key': 'order-2' })
      expect(other.body).to.have.property('denial_reason', 'ap2_replayed')
    })
  })

  it('tells the webhook of denials for mandates, and of no others', async () => {
    const told: UpstreamCall[] = []
    const arrivals = new EventEmitter()
    const arrived = once(arrivals, 'notice')
    await using hook = await startUpstream((call, response) => {
      told.push(call)
      response.end()
      arrivals.emit('notice')
    })
    await start({ policyWebhookUrl: hook.url })
    await buy(await bundle())
    await buy()
    await arrived
    const [first] = told
    const { type, data } = JSON.parse(first?.body ?? '{}')
    expect(type).to.equal('ap2.denied')
    expect(data).to.deep.include({ tenant: 'acme', tool: 'shop/buy@1.0.0', reasons: ['ap2_missing'] })
    expect(first?.headers).to.include.keys('webhook-id', 'webhook-timestamp', 'webhook-signature')
    expect(told).to.have.lengthOf(1)
  })

  it('does not slow calls down while a webhook never responds, and keeps few connections to it', async () => {
    let [open, most, received] = [0, 0, 0]
    await using hangs = await startUpstream((_, response) => {
      received++
      most = Math.max(most, ++open)
      response.once('close', () => open--)
    })
    await start({ policyWebhookUrl: hangs.url })
    const denials = Array.from({ length: 60 }, () => buy())
    expect((await Promise.all(denials)).map(({ status }) => status)).to.deep.equal(denials.map(() => 403))
    await until(async () => received > 0)
    expect(await (await fetch(`${gateway.url}/healthz`)).text()).to.not.equal('')
    expect((await buy(await bundle())).status).to.equal(200)
    expect(most).to.be.within(1, 4)
  })

  it('does not wait for a webhook that is down or hangs', async () => {
    await using hangs = await startUpstream(() => undefined)
    await start({ policyWebhookUrl: hangs.url })
    expect((await buy()).status).to.equal(403)
    await gateway[Symbol.asyncDispose]()
    await start({ policyWebhookUrl: 'http://127.0.0.1:1/' })
    expect((await buy()).status).to.equal(403)
  })
})
