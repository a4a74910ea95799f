import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'

const wellKnown = '/.well-known/oauth-protected-resource'
const targets = { files: 'http://127.0.0.1:9/mcp', 'my mail': 'http://127.0.0.1:9/mcp' }
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

describe('the metadata of the gateway as a protected resource', () => {
  let issuer: TestIssuer
  let gateway: TestGateway | undefined

  beforeEach(async () => {
    issuer = await TestIssuer.start()
  })

  afterEach(async () => {
    await gateway?.[Symbol.asyncDispose]()
    gateway = undefined
    await issuer[Symbol.asyncDispose]()
  })

  async function start(options: GatewaySettings = {}): Promise<TestGateway> {
    const scopes = { required: ['tools'], servers: { files: ['files'] } }
    gateway = await startTestGateway({ targets, authn: { oidc: { ...issuer.oidc, scopes } }, ...options })
    return gateway
  }

  async function get(path: string, headers: Record<string, string> = {}, method = 'GET') {
    const response = await fetch(`${gateway?.url}${path}`, { method, headers })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? '' : JSON.parse(text) }
  }

  /** The challenge of a call without a token over MCP. */
  async function challenge(path = '/mcp/files', headers: Record<string, string> = {}) {
    const response = await fetch(`${gateway?.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(ping),
    })
    expect(response.status).to.equal(401)
    return response.headers.get('www-authenticate')
  }

  it('is open to web pages of any origin, with the header that clients of MCP send, and nothing else is', async () => {
    const origin = 'https://elsewhere.example'
    await start({ server: { allowedOrigins: ['https://app.example.com'] } })
    const asked = { origin, 'access-control-request-method': 'GET' }
    for (const path of [wellKnown, `${wellKnown}/mcp`, `${wellKnown}/mcp/files`]) {
      const read = await get(path, { origin })
      expect(read.status).to.equal(200)
      const preflight = await get(
        path,
        { ...asked, 'access-control-request-headers': 'mcp-protocol-version' },
        'OPTIONS',
      )
      expect(preflight.status).to.equal(204)
      expect(preflight.headers.get('access-control-allow-headers')).to.equal('authorization, *')
      for (const { headers } of [read, preflight])
        expect(headers.get('access-control-allow-origin')).to.equal('*')
    }
    for (const path of ['/mcp', '/healthz', '/.well-known/other']) {
      for (const method of ['GET', 'OPTIONS']) {
        const { headers } = await get(path, asked, method)
        expect(headers.has('access-control-allow-origin')).to.equal(false)
      }
    }
  })

  it('names the resource, the issuer, the scopes and how tokens are sent, for the gateway and each server', async () => {
    const { url } = await start()
    const whole = await get(wellKnown)
    expect(whole.status).to.equal(200)
    expect(whole.headers.get('content-type')).to.equal('application/json')
    expect(whole.headers.get('cache-control')).to.equal('no-store')
    expect(whole.body).to.deep.equal({
      resource: url,
      authorization_servers: [issuer.issuer],
      scopes_supported: ['tools'],
      bearer_methods_supported: ['header'],
    })
    expect((await get(`${wellKnown}/mcp/files`)).body).to.deep.equal({
      resource: `${url}/mcp/files`,
      authorization_servers: [issuer.issuer],
      scopes_supported: ['tools', 'files'],
      bearer_methods_supported: ['header'],
    })
    expect((await get(`${wellKnown}/mcp/my%20mail`)).body).to.include({ resource: `${url}/mcp/my%20mail` })
  })

  it('describe the endpoints of several servers, with the scopes of these', async () => {
    const { url } = await start({ federation: { groups: { office: ['my mail'] } } })
    expect((await get(`${wellKnown}/mcp`)).body).to.deep.include({
      resource: `${url}/mcp`,
      scopes_supported: ['tools', 'files'],
    })
    expect((await get(`${wellKnown}/mcp/office`)).body).to.deep.include({
      resource: `${url}/mcp/office`,
      scopes_supported: ['tools'],
    })
    expect(await challenge('/mcp')).to.equal(
      `Bearer realm="svc", scope="tools files", resource_metadata="${url}${wellKnown}/mcp"`,
    )
    expect(await challenge('/mcp/office')).to.equal(
      `Bearer realm="svc", scope="tools", resource_metadata="${url}${wellKnown}/mcp/office"`,
    )
  })

  it('omit the scopes if the policy requires no scopes', async () => {
    await start({ authn: { oidc: issuer.oidc } })
    expect((await get(wellKnown)).body).to.not.have.property('scopes_supported')
  })

  it('are not found without an issuer, in the error shape', async () => {
    await start({ authn: { allowUnauthenticated: true } })
    const { status, body } = await get(`${wellKnown}/mcp/files`)
    expect(status).to.equal(404)
    expect(body).to.include({ error: 'TARGET_NOT_FOUND', sent: false })
  })

  it('are not found for an unknown server or with another method', async () => {
    await start()
    const paths = ['/mcp/nobody', '/mcp/', '/mcp/files/', '/mcp/files/read@1.0.0', '/mcp/%zz', '/elsewhere']
    for (const path of paths) expect((await get(`${wellKnown}${path}`)).status, path).to.equal(404)
    expect((await get(wellKnown, {}, 'POST')).status).to.equal(404)
    expect(await get(wellKnown, {}, 'HEAD')).to.include({ status: 200, body: '' })
  })

  it('are named in the 401 of both protocols', async () => {
    const { url } = await start()
    const expected = `Bearer realm="svc", scope="tools files", resource_metadata="${url}${wellKnown}/mcp/files"`
    expect(await challenge()).to.equal(expected)
    expect(await challenge('/mcp/files/read@1.0.0')).to.equal(expected)
    expect(await challenge('/a2a/invoke')).to.equal(
      `Bearer realm="svc", scope="tools", resource_metadata="${url}${wellKnown}"`,
    )
  })

  it('are named in the 403 of both protocols, which is an HTTP error', async () => {
    const { url } = await start()
    const authorization = `Bearer ${await issuer.sign({ scope: 'tools' })}`
    for (const path of ['/mcp/files', '/mcp/files/read@1.0.0']) {
      const response = await gateway?.invoke(path, ping, { authorization })
      expect(response?.status, path).to.equal(403)
      expect(await response?.json(), path).to.include({
        error: 'TOOL_NOT_ALLOWED',
        denial_reason: 'insufficient_scope',
        message: 'The token lacks the scope files.',
      })
      expect(response?.headers.get('www-authenticate'), path).to.equal(
        `Bearer realm="svc", error="insufficient_scope", scope="tools files", resource_metadata="${url}${wellKnown}/mcp/files", error_description="The token lacks the scope files."`,
      )
    }
    const [record] = gateway?.records() ?? []
    expect(record).to.deep.include({ status: 'error', error: 'TOOL_NOT_ALLOWED', tenant: 'acme' })
    expect(record?.principal).to.include({ user: 'ada@example.com' })
  })

  it('have the host that a trusted proxy received, as have challenges', async () => {
    await start({ server: { trustedProxies: ['127.0.0.1'] } })
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'gw.example' }
    const { body } = await get(`${wellKnown}/mcp/files`, headers)
    expect(body).to.include({ resource: 'https://gw.example/mcp/files' })
    expect(await challenge('/mcp/files', headers)).to.include(
      `resource_metadata="https://gw.example${wellKnown}/mcp/files"`,
    )
  })

  it('ignore forwarded hosts of untrusted clients', async () => {
    const { url } = await start()
    const headers = {
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil.example',
      forwarded: 'host=evil.example',
    }
    expect((await get(wellKnown, headers)).body).to.include({ resource: url })
  })

  it('are refused and omitted from challenges if the forwarded headers contradict each other', async () => {
    await start({ server: { trustedProxies: ['127.0.0.1'] } })
    const headers = { 'x-forwarded-host': 'gw.example', forwarded: 'host=evil.example' }
    expect(await get(wellKnown, headers)).to.include({ status: 400 })
    expect(await challenge('/mcp/files', headers)).to.equal('Bearer realm="svc", scope="tools files"')
  })

  it('are below the path of the public URL too', async () => {
    await start({ server: { publicUrl: 'https://example.com/tools/' } })
    const resource = 'https://example.com/tools/mcp/files'
    expect((await get(`${wellKnown}/tools/mcp/files`)).body).to.include({ resource })
    expect((await get(`${wellKnown}/mcp/files`)).body).to.include({ resource })
    expect((await get(`${wellKnown}/tools`)).body).to.include({ resource: 'https://example.com/tools' })
    expect((await get(`${wellKnown}/toolsmcp/files`)).status).to.equal(404)
    expect(await challenge()).to.include(
      `resource_metadata="https://example.com${wellKnown}/tools/mcp/files"`,
    )
  })

  it('follow a reload', async () => {
    const { handle } = await start()
    await handle.reload({ server: { publicUrl: 'https://gw.example' } })
    expect((await get(wellKnown)).body).to.include({ resource: 'https://gw.example' })
  })
})
