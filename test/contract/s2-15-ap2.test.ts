import { canonicalize } from '@svc/core/json'
import { issueMandates } from '@svc/plugin-ap2/dev'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { args, binding, issuance, issuer } from '../plugins/ap2/purchase.js'
import { startWebhook } from '../support/webhook.js'
import { refused, serving } from './rig.js'
import { contractSection } from './section.js'

type Ap2 = NonNullable<GatewaySettings['ap2']>

const section: Ap2 = {
  requireForSideEffects: true,
  trust: { issuersAllowlist: [issuer.did] },
  tools: { bind: { 'files/buy': binding } },
}

interface Presented {
  /** The header that carries the mandates. */
  readonly header?: string
  readonly tool?: string
  /** Seconds by which the issuer's clock is ahead. */
  readonly aheadSec?: number
}

/** The reason for which the purchase is refused; undefined if it passes. */
async function reasonOf(
  ap2: Ap2,
  { header = 'x-ap2-bundle', tool = 'buy@1.0.0', aheadSec = 0 }: Presented = {},
) {
  await using rig = await serving({ ap2 })
  const issuedAt = Math.floor(Date.now() / 1000) + aheadSec
  const members = await issueMandates('chain', { ...issuance, audience: 'files', issuedAt })
  const { body } = await rig.call({
    tool,
    args,
    headers: { [header]: Buffer.from(canonicalize({ ...members })).toString('base64url') },
  })
  return body['denial_reason']
}

/** The reason for which a call without mandates is refused. */
async function withoutMandate(ap2: Ap2, tool = 'buy@1.0.0') {
  await using rig = await serving({ ap2 })
  return (await rig.call({ tool, args })).body['denial_reason']
}

contractSection('2.15', 'ap2', ({ holds }) => {
  holds('a', '`ap2.enabled` enables AP2 checks.', async () => {
    expect(await withoutMandate(section)).to.equal('ap2_missing')
    expect(await withoutMandate({ ...section, enabled: false })).to.equal(undefined)
  })
  holds('b', '`ap2.requireForSideEffects` requires AP2 for side effects.', async () => {
    expect(await withoutMandate(section)).to.equal('ap2_missing')
    expect(await withoutMandate(section, 'search@1.0.0')).to.equal(undefined)
    expect(await withoutMandate({ ...section, requireForSideEffects: false })).to.equal(undefined)
  })
  for (const [letter, name, what] of [
    ['c', 'intent', 'intent mandate'],
    ['d', 'cart', 'cart mandate'],
    ['e', 'bundle', 'bundle'],
  ] as const) {
    holds(letter, `\`ap2.headers.${name}\` names the header of the ${what}.`, async () => {
      await using rig = await serving({ ap2: { ...section, headers: { [name]: 'x-mine' } } })
      const call = (header: string) =>
        rig.call({ tool: 'buy@1.0.0', args, headers: { [header]: 'no mandate' } })
      expect((await call('x-mine')).body['denial_reason']).to.equal('ap2_malformed')
      const usual = name === 'bundle' ? 'x-ap2-bundle' : `x-ap2-${name}-mandate`
      expect((await call(usual)).body['denial_reason']).to.equal('ap2_missing')
    })
  }
  holds('l', 'The header of the cart mandate carries it: a purchase passes.', async () => {
    const { instrument: _, ...checkoutOnly } = binding
    const ap2 = { ...section, headers: { cart: 'x-cart' }, tools: { bind: { 'files/buy': checkoutOnly } } }
    await using rig = await serving({ ap2 })
    const issuedAt = Math.floor(Date.now() / 1000)
    const { checkout } = await issueMandates('chain', { ...issuance, audience: 'files', issuedAt })
    const headers = { 'x-cart': String(checkout) }
    expect((await rig.call({ tool: 'buy@1.0.0', args, headers })).status).to.equal(200)
  })
  holds(
    'm',
    'The header of the intent mandate carries it: it is recorded, and authorizes nothing.',
    async () => {
      const intent = { natural_language_description: 'shoes', intent_expiry: '2030-01-01T00:00:00Z' }
      const headers = { 'x-intent': JSON.stringify(intent) }
      await using rig = await serving({ ap2: { ...section, headers: { intent: 'x-intent' } } })
      expect((await rig.call({ tool: 'buy@1.0.0', args, headers })).body['denial_reason']).to.equal(
        'ap2_missing',
      )
      const issuedAt = Math.floor(Date.now() / 1000)
      const members = await issueMandates('chain', { ...issuance, audience: 'files', issuedAt })
      const bundle = { 'x-ap2-bundle': Buffer.from(canonicalize({ ...members })).toString('base64url') }
      const { record } = await rig.call({ tool: 'buy@1.0.0', args, headers: { ...headers, ...bundle } })
      expect(record.agentMetadata).to.have.nested.property('ap2.unsigned_intents').with.length(1)
    },
  )
  holds('f', '`ap2.trust.didMethods` lists the allowed DID methods.', async () => {
    const trust = (didMethods: string[]) => ({
      ...section,
      trust: { issuersAllowlist: [issuer.did], didMethods },
    })
    expect(await reasonOf(trust(['web']))).to.equal('ap2_did_method_not_allowed')
    expect(await reasonOf(trust([issuer.did.split(':')[1] ?? '']))).to.equal(undefined)
  })
  holds('g', '`ap2.trust.issuersAllowlist` lists the allowed issuers.', async () => {
    const trust = { issuersAllowlist: ['did:web:other.example'] }
    expect(await reasonOf({ ...section, trust })).to.equal('ap2_issuer_not_allowed')
    expect(await reasonOf(section)).to.equal(undefined)
  })
  holds('h', '`ap2.trust.clockSkewSec` is the clock skew tolerance.', async () => {
    const skew = (clockSkewSec: number) => ({
      ...section,
      trust: { issuersAllowlist: [issuer.did], clockSkewSec },
    })
    expect(await reasonOf(skew(0), { aheadSec: 300 })).to.equal('ap2_not_yet_valid')
    expect(await reasonOf(skew(600), { aheadSec: 300 })).to.equal(undefined)
  })
  holds('i', '`ap2.tools.allow` lists the allowed tools.', async () => {
    const only = (tool: string) => ({ ...section, tools: { ...section.tools, allow: [tool] } })
    expect(await withoutMandate(only('files/buy'))).to.equal('ap2_missing')
    expect(await withoutMandate(only('files/pay'))).to.equal(undefined)
    for (const mode of ['partial', 'full'] as const) {
      expect(await withoutMandate({ ...only('files/pay'), mode }), mode).to.equal('ap2_tool_not_allowed')
    }
  })
  holds('j', '`ap2.mode` is empty, `observe`, `partial` or `full`.', async () => {
    for (const mode of ['', 'partial', 'full'] as const)
      expect(await withoutMandate({ ...section, mode }), mode).to.equal('ap2_missing')
    expect(await withoutMandate({ ...section, mode: 'observe' })).to.equal(undefined)
    expect(await withoutMandate({ ...section, mode: 'full' }, 'search@1.0.0')).to.equal('ap2_missing')
    expect(await withoutMandate({ ...section, mode: 'partial' }, 'search@1.0.0')).to.equal(undefined)
    refused({ ap2: { ...section, mode: 'half' } }, 'ap2.mode')
  })
  holds('k', '`ap2.policyWebhookUrl` is the address of a policy webhook.', async () => {
    await using hook = await startWebhook()
    await using rig = await serving({ ap2: { ...section, policyWebhookUrl: hook.url } })
    await rig.call({ tool: 'buy@1.0.0', args })
    await hook.until(1)
    expect(JSON.parse(hook.deliveries[0]?.body ?? '')).to.have.property('type', 'ap2.denied')
    refused({ ap2: { ...section, policyWebhookUrl: 'no URL' } }, 'ap2.policyWebhookUrl')
  })
})
