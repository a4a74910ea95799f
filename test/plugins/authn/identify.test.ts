import type { IncomingHttpHeaders } from 'node:http'
import { type Identify, isRefusal, type Stage, services } from '@svc/core'
import { authnPlugin, stdioClient } from '@svc/plugin-authn'
import { expect } from 'chai'
import sinon from 'sinon'
import { ofEachTest } from '../../support/parts.js'
import { AuthnRig, present, sendWith } from './rig.js'

describe('authn: the identity of a request that is not a call', () => {
  const identifyOf = (stage: Stage): Identify =>
    rig.serviceOf(stage, services.identify) ?? expect.fail('authn identifies nobody')

  /** `CODE: message` of the refusal. */
  async function whyNot(stage: Stage, headers: IncomingHttpHeaders = {}): Promise<string> {
    return identifyOf(stage)(headers).then(
      (who) => expect.fail(`let in as ${JSON.stringify(who)}`),
      (error: unknown) => {
        if (!isRefusal(error)) throw error
        return `${error.code}: ${error.message}`
      },
    )
  }

  const rig = ofEachTest(() => AuthnRig.start())

  it('equals the identity of a call with the same token, which is verified once for both', async () => {
    const stage = await rig.stage()
    const bearer = await rig.issuer.sign({ roles: ['auditor'] })
    const verify = sinon.spy(crypto.subtle, 'verify')
    try {
      const who = await identifyOf(stage)({ authorization: `Bearer ${bearer}` })
      expect(who).to.deep.include({ tenant: 'acme', user: 'ada@example.com', roles: ['auditor'] })
      expect((await present(stage, bearer)).identity).to.equal(who)
      expect(verify.callCount).to.equal(1)
    } finally {
      verify.restore()
    }
  })

  it('is refused for an expired, foreign or malformed token', async () => {
    const stage = await rig.stage()
    const expired = await rig.issuer.sign({}, { expiresIn: -60 })
    const foreign = await rig.issuer.sign({ aud: 'other' })
    expect(await whyNot(stage, { authorization: `Bearer ${expired}` })).to.match(
      /^UNAUTHENTICATED: .*expired/,
    )
    expect(await whyNot(stage, { authorization: `Bearer ${foreign}` })).to.match(/"other"/)
    expect(await whyNot(stage, { authorization: 'Basic YTpi' })).to.match(/^UNAUTHENTICATED: .*"Basic"/)
    expect(await whyNot(stage)).to.match(/^UNAUTHENTICATED: A bearer token of .* is required/)
  })

  it('is refused with another tenant in x-tenant, and accepted with its own', async () => {
    const stage = await rig.stage()
    const authorization = `Bearer ${await rig.issuer.sign()}`
    expect(await whyNot(stage, { authorization, 'x-tenant': 'globex' })).to.match(/^UNAUTHORIZED_TENANT: /)
    expect(await identifyOf(stage)({ authorization, 'x-tenant': 'acme' })).to.include({ tenant: 'acme' })
  })

  it('has the tenant of the gateway without a token, if the policy accepts that', async () => {
    const stage = await rig.start(authnPlugin, { allowUnauthenticated: true })
    expect(await identifyOf(stage)({})).to.include({ tenant: 'gateway-tenant', authenticated: false })
    expect(await whyNot(stage, { 'x-tenant': 'acme' })).to.match(/^UNAUTHORIZED_TENANT: /)
    expect(await whyNot(stage, { authorization: 'Bearer abc' })).to.match(/^UNAUTHENTICATED: No token can be/)
  })

  it('is unknown while the keys of the issuer are not available', async () => {
    await rig.issuer.down()
    const stage = await rig.stage()
    const bearer = await rig.issuer.sign()
    expect(await whyNot(stage, { authorization: `Bearer ${bearer}` })).to.match(/^STORE_UNAVAILABLE: /)
  })

  it('is taken from a token for a single server if the request concerns that server', async () => {
    const publicUrl = 'https://gw.example'
    const stage = await rig.stage({}, {}, { publicUrl })
    const authorization = `Bearer ${await rig.issuer.sign({ aud: `${publicUrl}/mcp/files` })}`
    const asked: string[][] = []
    const identify = (response: boolean) =>
      identifyOf(stage)({ authorization }, async (servers) => {
        asked.push([...servers])
        return response
      })
    expect(await identify(true)).to.include({ user: 'ada@example.com' })
    expect(await identify(false).catch(String)).to.match(/for a single server/)
    expect(asked).to.deep.equal([['files'], ['files']])
    const whole = `Bearer ${await rig.issuer.sign()}`
    const never = async () => expect.fail('asked of a token for every server')
    expect(await identifyOf(stage)({ authorization: whole }, never)).to.include({ user: 'ada@example.com' })
  })

  it('is refused for a token for a single server elsewhere', async () => {
    const publicUrl = 'https://gw.example'
    const stage = await rig.stage({}, {}, { publicUrl })
    const bearer = await rig.issuer.sign({ aud: `${publicUrl}/mcp/files` })
    expect(await whyNot(stage, { authorization: `Bearer ${bearer}` })).to.equal(
      'UNAUTHENTICATED: The token is for a single server of this gateway.',
    )
  })

  it('is refused with two Authorization headers', async () => {
    const two = ['Bearer a', 'Bearer b'] as unknown as string
    expect(await whyNot(await rig.stage(), { authorization: two })).to.match(/There is more than one/)
  })

  describe('of the caller over stdio', () => {
    const stdioCaller = { user: 'ada@example.com', client: 'editor', roles: ['analyst'] }

    it('is the one of the policy, for calls too, and a token that is present takes precedence', async () => {
      rig.bind(stdioClient, true)
      const stage = await rig.stage({}, { stdioCaller })
      const caller = { ...stdioCaller, tenant: 'gateway-tenant', authenticated: true }
      expect(await identifyOf(stage)({})).to.deep.equal(caller)
      expect((await sendWith(stage)).identity).to.deep.equal(caller)
      const bearer = await rig.issuer.sign({ email: 'bob@example.com' })
      expect((await present(stage, bearer)).identity).to.include({ user: 'bob@example.com' })
    })

    it('has the scopes of the policy alone', async () => {
      rig.bind(stdioClient, true)
      const scopes = { required: ['tools'] }
      const without = await sendWith(await rig.stage({ scopes }, { stdioCaller }))
      expect(without.outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
      const stage = await rig.stage({ scopes }, { stdioCaller: { ...stdioCaller, scopes: ['tools'] } })
      expect((await sendWith(stage)).outcome).to.include({ kind: 'completed' })
    })

    it('is not set for calls over HTTP', async () => {
      const stage = await rig.stage({}, { stdioCaller })
      expect(await whyNot(stage)).to.match(/^UNAUTHENTICATED: /)
      expect((await sendWith(stage)).outcome).to.include({ code: 'UNAUTHENTICATED' })
    })
  })
})
