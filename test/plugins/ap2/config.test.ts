import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bind, type DoctorCheck } from '@svc/core'
import { ap2Plugin, didMethods } from '@svc/plugin-ap2'
import { generateLocalKey } from '@svc/plugin-ap2/dev'
import { expect } from 'chai'
import { createStage, fakeCall, fakeContext } from 'svc-sdk/testing'
import { container } from 'tsyringe'
import { checkSection } from '../../support/check.js'
import { ofSuite } from '../../support/parts.js'
import { explain } from '../../support/stage-rig.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const bound = { bind: { 'shop/buy': { total: '/total' } } }
const trusting = { trust: { issuersAllowlist: ['did:web:shop.example'] }, tools: bound }

describe('the section ap2', () => {
  it('has every key of the contract, and defaults for the others', () => {
    const parsed = ap2Plugin.schema.parse({
      enabled: true,
      requireForSideEffects: true,
      headers: { intent: 'X-Intent', cart: 'X-Cart', bundle: 'X-Bundle' },
      trust: { didMethods: ['web', 'did:key'], issuersAllowlist: ['did:web:shop.example'], clockSkewSec: 60 },
      tools: { allow: ['shop/*'] },
      mode: 'partial',
      policyWebhookUrl: 'https://hooks.example/ap2',
    })
    expect(parsed.headers).to.deep.equal({ intent: 'x-intent', cart: 'x-cart', bundle: 'x-bundle' })
    expect(parsed.trust.didMethods).to.deep.equal(['web', 'key'])
    expect(ap2Plugin.schema.parse({})).to.deep.include({
      enabled: true,
      mode: '',
      headers: { intent: 'x-ap2-intent-mandate', cart: 'x-ap2-cart-mandate', bundle: 'x-ap2-bundle' },
    })
  })

  it('refuses headers that have another meaning or one name', () => {
    const accepts = (headers: object) => ap2Plugin.schema.safeParse({ headers }).success
    for (const name of [
      'Authorization',
      'cookie',
      'Idempotency-Key',
      'x-agent-state',
      'mcp-method',
      'content-type',
    ]) {
      expect(accepts({ cart: name }), name).to.equal(false)
    }
    expect(accepts({ cart: 'x-one', bundle: 'X-One' })).to.equal(false)
  })

  it('refuses malformed patterns, pointers and keys', () => {
    const { privateJwk, publicJwk } = generateLocalKey('ES256')
    const sections = [
      { tools: { allow: ['a/b/c@'] } },
      { tools: { bind: { 'shop/buy': { total: 'total' } } } },
      { trust: { issuers: { shop: { keys: [privateJwk] } } } },
      { trust: { issuers: { shop: {} } } },
      { trust: { issuers: { shop: { keys: [publicJwk], file: 'x' } } } },
      { trust: { algorithms: ['HS256'] } },
    ]
    for (const section of sections) {
      expect(ap2Plugin.schema.safeParse(section).success, JSON.stringify(section)).to.equal(false)
    }
  })

  it('warns of settings without effect, and of settings that refuse every mandate', () => {
    expect(checkSection(ap2Plugin, trusting)).to.deep.equal([])
    expect(checkSection(ap2Plugin, { enabled: false })).to.deep.equal([])
    expect(checkSection(ap2Plugin, { enabled: false, mode: 'full' })).to.deep.equal([
      'warning ap2.mode: has no effect with enabled: false',
    ])
    expect(checkSection(ap2Plugin, {})).to.deep.equal([
      'warning ap2.trust: no issuer is allowed, so every mandate is refused; issuersAllowlist names them',
      'warning ap2.tools: without bind, a mandate that bounds a total, items or a merchant is refused',
    ])
    expect(checkSection(ap2Plugin, { ...trusting, tools: { allow: [], ...bound } })).to.deep.equal([
      'warning ap2.tools.allow: is empty, so mandates apply to no tool',
    ])
    expect(
      checkSection(ap2Plugin, { ...trusting, mode: 'full', tools: { allow: [], ...bound } }),
    ).to.deep.equal([
      'warning ap2.tools.allow: is empty, so mandates apply to no tool, and every call with side effects is refused',
    ])
    const denyRule = { mode: 'enforce', denyOn: ['egress_violation'] } as const
    expect(checkSection(ap2Plugin, trusting, { denyRule })).to.have.lengthOf(1)
    expect(checkSection(ap2Plugin, { ...trusting, mode: 'full' }, { denyRule })).to.deep.equal([])
  })

  it('refuses a DID method without a resolver, unless code binds the methods', () => {
    const section = { ...trusting, trust: { ...trusting.trust, didMethods: ['ebsi'] } }
    expect(checkSection(ap2Plugin, section)[0]).to.match(
      /^mistake ap2\.trust\.didMethods\.0: no resolver for did:ebsi/,
    )
    const bindings = container.createChildContainer()
    bind(bindings, didMethods, { useValue: { ebsi: { resolve: async () => [] } } })
    expect(checkSection(ap2Plugin, section, {}, bindings)).to.deep.equal([])
  })

  it('refuses files that cannot be read', () => {
    const place = { baseDir: '/nowhere', stateDir: '/nowhere' }
    const section = {
      trust: { issuers: { shop: { file: 'keys.json' } }, didWeb: { caFile: 'ca.pem' } },
      tools: bound,
    }
    const found = checkSection(ap2Plugin, section, { host: { place } })
    expect(found.map((line) => line.split(':')[0])).to.deep.equal([
      'mistake ap2.trust.issuers.shop',
      'mistake ap2.trust.didWeb.caFile',
    ])
  })
})

describe('svc doctor', () => {
  const dir = ofSuite(() => new TemporaryDir())

  async function doctor(section: object, methods?: Record<string, { resolve(): Promise<never[]> }>) {
    const context = fakeContext(dir.path)
    const config = ap2Plugin.schema.parse(section)
    if (methods !== undefined) {
      bind(context.container, didMethods, { useValue: methods })
    }
    const checks: readonly DoctorCheck[] = (await ap2Plugin.create(config, context).doctor?.()) ?? []
    return checks.map(({ severity }) => severity)
  }

  it('finds the keys of every allowed issuer', async () => {
    const { did, publicJwk } = generateLocalKey('ES256')
    writeFileSync(join(dir.path, 'shop.json'), JSON.stringify({ keys: [publicJwk] }))
    const issuersAllowlist = [did, 'shop', 'did:web:127.0.0.1', 'did:none:x', 'other', 'did:ebsi:x']
    const trust = { issuersAllowlist, issuers: { shop: { file: 'shop.json' } } }
    const methods = { ebsi: { resolve: async () => [] } }
    expect(await doctor({ trust }, methods)).to.deep.equal(['ok', 'ok', 'error', 'error', 'error', 'error'])
    expect(await doctor({ enabled: false })).to.deep.equal([])
  })
})

describe('svc policy explain', () => {
  async function explained(over: object, tool = 'buy'): Promise<string[]> {
    const stage = createStage(ap2Plugin, { ...trusting, ...over }, fakeContext('/'))
    const { lines } = await explain(stage, fakeCall({ server: 'shop', tool }))
    return lines
  }

  it('says which mandates a call needs', async () => {
    const required = await explained({ requireForSideEffects: true })
    expect(required).to.deep.equal([
      'needs a mandate; enforcement.deny_on decides about its findings',
      'mandates are in x-ap2-intent-mandate, x-ap2-cart-mandate or x-ap2-bundle',
      'accepted issuers: did:web:shop.example',
      'compared with the mandate: total at "/total"',
    ])
    const [optional] = await explained({ requireForSideEffects: true }, 'search')
    expect(optional).to.match(/^verifies a mandate if the call has one/)
    const [outside] = await explained({ tools: { allow: ['bank/*'] } })
    expect(outside).to.match(/^mandates do not apply/)
    expect((await explained({ tools: {} })).at(-1)).to.match(/no entry for the tool/)
    expect(await explained({ enabled: false })).to.deep.equal(['enabled is false: mandates are not read'])
  })
})
