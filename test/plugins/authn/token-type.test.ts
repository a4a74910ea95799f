// What the issuer signs beside access tokens, and tokens that are bound to a key, are no bearer tokens.
import { expect } from 'chai'
import { ofSuite } from '../../support/parts.js'
import { refusal } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

describe('authn: the type of a token', () => {
  const rig = ofSuite(() => AuthnRig.start())

  async function reasonOf(
    claims: object,
    header: object = {},
    oidc: object = {},
  ): Promise<string | undefined> {
    const token = await rig.issuer.sign({ ...claims }, { header: { ...header } })
    const response = await present(await rig.stage(oidc), token)
    if (response.outcome.kind === 'completed') return undefined
    const refused = refusal(response)
    expect(refused).to.include({ kind: 'denied', code: 'UNAUTHENTICATED' })
    expect(refused.headers?.['www-authenticate']).to.match(/^Bearer realm="svc", error="invalid_token"/)
    return 'denial' in refused ? refused.denial?.reason : undefined
  }

  for (const claims of [
    { at_hash: 'x' },
    { c_hash: 'x' },
    { s_hash: null },
    { token_use: 'id' },
    { events: {} },
    { events: null },
  ]) {
    it(`is wrong with the claims ${JSON.stringify(claims)}`, async () => {
      expect(await reasonOf(claims)).to.equal('wrong_token_type')
    })
  }

  for (const typ of [
    'dpop+jwt',
    'logout+jwt',
    'secevent+jwt',
    'token-introspection+jwt',
    'x/jwt',
    '',
    7,
    null,
    ['JWT'],
  ]) {
    it(`is wrong with ${JSON.stringify(typ)} in its header`, async () => {
      expect(await reasonOf({}, { typ })).to.equal('wrong_token_type')
    })
  }

  for (const typ of [
    undefined,
    'JWT',
    'jwt',
    'at+jwt',
    'AT+JWT',
    'application/at+jwt',
    'Application/AT+JWT',
    'application/jwt',
  ]) {
    it(`is right with ${JSON.stringify(typ) ?? 'none'} in its header`, async () => {
      expect(await reasonOf({ token_use: 'access' }, { typ })).to.equal(undefined)
    })
  }

  it('may be that of an ID token if the policy says so, and never that of an event', async () => {
    const oidc = { idTokens: 'accept' }
    expect(await reasonOf({ at_hash: 'x', token_use: 'id' }, {}, oidc)).to.equal(undefined)
    expect(await reasonOf({ at_hash: 'x', events: {} }, {}, oidc)).to.equal('wrong_token_type')
  })

  for (const cnf of [{ jkt: 'x' }, { 'x5t#S256': 'x' }, {}, 'x', null]) {
    it(`needs a proof if the token is bound by ${JSON.stringify(cnf)}`, async () => {
      expect(await reasonOf({ cnf })).to.equal('proof_required')
    })
  }

  it('is said again from the cache', async () => {
    const stage = await rig.stage()
    const token = await rig.issuer.sign({ at_hash: 'x' })
    const [first, second] = [refusal(await present(stage, token)), refusal(await present(stage, token))]
    expect(second).to.deep.equal(first)
    expect(first).to.deep.include({
      denial: { level: 'gateway', type: 'authn', reason: 'wrong_token_type' },
    })
  })
})
