// A path that does not exist gets the paths that do. Names of servers are for callers who need no token: others learn
// from /mcp which they may use.
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'

const paths =
  '/mcp, /mcp/<server>, /mcp/<server>/<tool>@<version>, /a2a/invoke, /escalations/<id>, /healthz, /readyz'
const oidc = { issuer: 'https://id.example/', audience: 'a', jwks_uri: 'http://127.0.0.1:1/jwks' }
const secret = /payroll/

describe('a path that does not exist', () => {
  const rows: readonly (readonly [string, object, string, number, string])[] = [
    [
      'lists the paths and the servers',
      { allowUnauthenticated: true },
      '/nosuch',
      404,
      `No such path; there are ${paths}. Servers: files, payroll.`,
    ],
    [
      'lists the servers for another one',
      { allowUnauthenticated: true },
      '/mcp/nosuch/read@1',
      404,
      'No such server is configured. Servers: files, payroll.',
    ],
    ['names no server if a token is needed', { oidc }, '/nosuch', 404, `No such path; there are ${paths}.`],
    [
      'names no server if some callers have a token',
      { oidc, allowUnauthenticated: true },
      '/mcp/nosuch/read@1',
      404,
      'No such server is configured; /mcp serves those that you may use.',
    ],
    [
      'names no server in metadata for clients without a token',
      { oidc },
      '/.well-known/oauth-protected-resource/mcp/nosuch',
      404,
      'No such server is configured; /mcp serves those that you may use.',
    ],
    ['names no server if nobody may call', {}, '/nosuch', 404, `No such path; there are ${paths}.`],
  ]
  for (const [title, authn, path, status, message] of rows) {
    it(title, async () => {
      await using gateway = await startTestGateway({
        targets: { files: 'http://127.0.0.1:1', payroll: 'http://127.0.0.1:1' },
        authn,
      })
      const isCall = path.startsWith('/mcp/')
      const response = await fetch(`${gateway.url}${path}`, isCall ? { method: 'POST', body: '{}' } : {})
      const body = (await response.json()) as { error: string; message: string }
      expect(response.status).to.equal(status)
      expect(body).to.include({ error: 'TARGET_NOT_FOUND', message })
      if (!message.includes('payroll')) expect(JSON.stringify(body)).not.to.match(secret)
    })
  }
})
