// A real OpenID Connect provider whose clients get JWT access tokens with their secret alone (RFC 6749 §4.4).
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { Provider } from 'oidc-provider'

export interface ProviderOptions {
  /** The audience of a token that is requested for none. */
  readonly resource: string
  readonly clientId: string
  /** Clients beside the one that gets access tokens. */
  readonly otherClients?: readonly Record<string, unknown>[]
  readonly claims: Record<string, unknown>
}

const secret = 'a secret of the test'

export async function privateJwk(kid: string, alg: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, use: 'sig', alg }
}

export class CredentialsProvider implements AsyncDisposable {
  readonly issuer: string
  readonly #server: Server
  readonly #options: ProviderOptions

  private constructor(server: Server, options: ProviderOptions) {
    this.issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    this.#server = server
    this.#options = options
  }

  /** It responds once `provide` has given it keys. */
  static async start(options: ProviderOptions): Promise<CredentialsProvider> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new CredentialsProvider(server, options)
  }

  /** Replaces the keys, the first of which signs with RS256. */
  provide(keys: readonly JWK[]): Provider {
    const { resource, clientId, otherClients = [], claims } = this.#options
    const none = { redirect_uris: [], response_types: [] }
    const client = { client_id: clientId, client_secret: secret, grant_types: ['client_credentials'] }
    const provider = new Provider(this.issuer, {
      clients: [client, ...otherClients].map((one) => ({ ...none, ...one })),
      jwks: { keys },
      scopes: ['tools'],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => resource,
          getResourceServerInfo: (_context, audience) => ({
            scope: 'tools',
            audience,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
      extraTokenClaims: () => claims,
    })
    this.#server.removeAllListeners('request')
    this.#server.on('request', provider.callback())
    return provider
  }

  async endpoints(): Promise<{ jwks_uri: string; token_endpoint: string }> {
    const response = await fetch(`${this.issuer}/.well-known/openid-configuration`)
    return (await response.json()) as { jwks_uri: string; token_endpoint: string }
  }

  async accessToken(audience = this.#options.resource): Promise<string> {
    const { token_endpoint } = await this.endpoints()
    const pair = `${this.#options.clientId}:${secret.replaceAll(' ', '+')}`
    const response = await fetch(token_endpoint, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'tools', resource: audience }),
    })
    const { access_token } = (await response.json()) as { access_token?: string }
    if (access_token === undefined) throw new Error(`the provider gave no token: ${response.status}`)
    return access_token
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
