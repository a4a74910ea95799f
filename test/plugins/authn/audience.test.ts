import { type Call, identity, type PluginContext, publicBaseUrl, type Stage } from '@svc/core'
import { expect } from 'chai'
import { type CallOverrides, makeCall } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { send, why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

const publicUrl = 'https://gw.example'
const targets = { files: 'http://127.0.0.1:1', 'my mail': 'http://127.0.0.1:2' }

describe('authn: the audience of a token', () => {
  const rig = ofEachTest(() => AuthnRig.start())

  const stage = (context: Partial<PluginContext> = { publicUrl }): Promise<Stage> =>
    rig.stage({}, {}, { targets, ...context })

  /** `passed`, or the refusal. */
  async function judged(
    gate: Stage,
    aud: unknown,
    overrides: CallOverrides = {},
    prepare?: (call: Call) => void,
  ) {
    const authorization = `Bearer ${await rig.issuer.sign({ aud })}`
    const call = makeCall({ ...overrides, headers: { authorization } })
    prepare?.(call)
    const response = await send(gate, call)
    return response.outcome.kind === 'completed' ? 'passed' : why(response)
  }

  it('may be the one in the policy, the public URL or that of /mcp: for every server', async () => {
    const gate = await stage()
    for (const aud of [
      'svc-gateway',
      publicUrl,
      `${publicUrl}/`,
      `${publicUrl}/mcp`,
      ['elsewhere', publicUrl],
    ]) {
      expect(await judged(gate, aud), String(aud)).to.equal('passed')
      expect(await judged(gate, aud, { server: 'my mail' }), String(aud)).to.equal('passed')
    }
  })

  it("may be a server's resource (RFC 8707): for that server alone", async () => {
    const gate = await stage()
    const refusal = 'UNAUTHENTICATED: The token is for another server of this gateway.'
    expect(await judged(gate, `${publicUrl}/mcp/files`)).to.equal('passed')
    expect(await judged(gate, `${publicUrl}/mcp/my%20mail`)).to.equal(refusal)
    expect(await judged(gate, `${publicUrl}/mcp/my%20mail`, { server: 'my mail' })).to.equal('passed')
    expect(await judged(gate, [`${publicUrl}/mcp/files`, `${publicUrl}/mcp/my%20mail`])).to.equal('passed')
  })

  it('gives access to no other server when the token is cached', async () => {
    const gate = await stage()
    const headers = { authorization: `Bearer ${await rig.issuer.sign({ aud: `${publicUrl}/mcp/files` })}` }
    const kinds = []
    for (const server of ['files', 'my mail', 'files']) {
      kinds.push((await send(gate, { server, headers })).outcome.kind)
    }
    expect(kinds).to.deep.equal(['completed', 'denied', 'completed'])
  })

  it("may be a group's resource: for the servers of the group alone", async () => {
    const other = { ...targets, mail: 'http://127.0.0.1:3' }
    const groups = { office: ['mail', 'my mail'] }
    const gate = await stage({ publicUrl, targets: other, groups })
    const aud = `${publicUrl}/mcp/office`
    expect(await judged(gate, aud, { server: 'mail' })).to.equal('passed')
    expect(await judged(gate, aud, { server: 'my mail' })).to.equal('passed')
    expect(await judged(gate, aud, { server: 'files' })).to.match(/^UNAUTHENTICATED/)
    expect(await judged(await stage(), aud, { server: 'my mail' })).to.match(/^UNAUTHENTICATED/)
  })

  it('leaves the caller on record when it is used for another server', async () => {
    const authorization = `Bearer ${await rig.issuer.sign({ aud: `${publicUrl}/mcp/files` })}`
    const { call, outcome } = await send(await stage(), { server: 'my mail', headers: { authorization } })
    expect(outcome.kind).to.equal('denied')
    expect(call.get(identity)?.user).to.equal('ada@example.com')
  })

  it('is checked against the server in the body if the path names none', async () => {
    const gate = await stage()
    const a2a = (server: string): CallOverrides => ({ protocol: 'a2a', server })
    expect(await judged(gate, `${publicUrl}/mcp/files`, a2a('files'))).to.equal('passed')
    expect(await judged(gate, `${publicUrl}/mcp/files`, a2a('my mail'))).to.match(/^UNAUTHENTICATED/)
  })

  it('may not be a URL that only a request header claims', async () => {
    const gate = await stage({})
    const claim = (call: Call) => call.set(publicBaseUrl, () => 'https://evil.example')
    expect(await judged(gate, 'https://evil.example/mcp/files', {}, claim)).to.match(/^UNAUTHENTICATED/)
    expect(await judged(gate, 'https://evil.example', {}, claim)).to.match(/^UNAUTHENTICATED/)
  })

  it('may not be the URL of an unknown server, nor a similar URL', async () => {
    const gate = await stage()
    const wrong = ['/mcp/nobody', '/mcp/files/', '/mcp/FILES', '/mcp/', '/mcp/files/read@1.0.0']
    for (const path of wrong) {
      expect(await judged(gate, `${publicUrl}${path}`), path).to.match(/^UNAUTHENTICATED: The token is for/)
    }
  })

  it('is not accepted any more when the public URL changes', async () => {
    const token = await rig.issuer.sign({ aud: publicUrl })
    expect((await present(await stage(), token)).outcome.kind).to.equal('completed')
    const after = await stage({ publicUrl: 'https://other.example' })
    expect((await present(after, token)).outcome.kind).to.equal('denied')
  })
})
