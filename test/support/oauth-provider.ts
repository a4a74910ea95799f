// A real authorization server with people who sign in and consent: clients register themselves (RFC 7591), ask for a
// code with PKCE, and get JWT access tokens for the resource they name (RFC 8707).
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'

export interface OAuthProvider extends AsyncDisposable {
  readonly issuer: string
  /** What `authn.oidc` needs to trust it. */
  readonly oidc: { readonly issuer: string; readonly audience: string; readonly jwks_uri: string }
  /** Signs in as `who`, consents to everything, and gives the code that the client gets. */
  authorize(url: URL, who: string): Promise<string>
}

/** A client that may ask for every scope; one that registers itself only for those it knew of then. */
export const registeredClient = 'app'

export const registered = {
  redirect_uris: ['http://127.0.0.1:1/callback'],
  grant_types: ['authorization_code'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
}

/** `scope`: all scopes that there are, separated by spaces. */
export async function startOAuthProvider(scope: string): Promise<OAuthProvider> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const provider = new Provider(issuer, {
    clients: [{ ...registered, client_id: registeredClient }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'one', use: 'sig', alg: 'RS256' }] },
    scopes: scope.split(' '),
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, audience) => ({
          scope,
          audience,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    extraTokenClaims: (_context, { accountId = 'nobody' }) => ({
      org: 'acme',
      email: `${accountId}@example.com`,
    }),
  })
  server.on('request', provider.callback())
  return {
    issuer,
    oidc: { issuer, audience: 'an audience that no token here has', jwks_uri: `${issuer}/jwks` },
    authorize: (url, who) => new Browser(who).authorize(url),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** As much of one as the provider's own pages need. */
class Browser {
  #who: string
  #cookies = new Map<string, string>()

  constructor(who: string) {
    this.#who = who
  }

  async authorize(url: URL): Promise<string> {
    let at = url
    for (let page = 0; page < 12; page++) {
      const code = at.searchParams.get('code')
      if (code !== null) return code
      const fault = at.searchParams.get('error')
      if (fault !== null) throw new Error(`${fault}: ${at.searchParams.get('error_description')}`)
      const answer = await this.#open(at)
      const next = answer.headers.get('location')
      at = next === null ? await this.#submit(at, await answer.text()) : new URL(next, at)
    }
    throw new Error('the provider asks on and on')
  }

  /** Fills in the form of the page, and gives where it leads. */
  async #submit(at: URL, page: string): Promise<URL> {
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1]
    if (prompt === undefined) throw new Error(`not a form: ${page}`)
    const body = new URLSearchParams({ prompt, login: this.#who, password: 'any' })
    const answer = await this.#open(at, { method: 'POST', body })
    return new URL(answer.headers.get('location') ?? '', at)
  }

  async #open(url: URL, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      this.#cookies.set(name, value)
    }
    return answer
  }
}
