// A real authorization server with people who sign in and consent: clients ask for a code with PKCE, and get JWT access
// tokens for the resource they name (RFC 8707).
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'
import { Agent, fetch as fetchWith } from 'undici'
import { listenOnLoopback } from './loopback.js'

export interface OAuthProvider extends AsyncDisposable {
  readonly issuer: string
  /** What `authn.oidc` needs to trust it. */
  readonly oidc: { readonly issuer: string; readonly audience: string; readonly jwks_uri: string }
}

/** A client that may ask for every scope; one that registers itself only for those it knew of then. */
export const registeredClient = 'svc-clients'

export const registered = {
  // The provider ignores the port of a loopback address (RFC 8252 §7.3).
  redirect_uris: [
    'http://127.0.0.1/callback',
    'http://localhost/oauth/callback',
    'http://localhost/console/callback',
  ],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
}

export interface OAuthProviderOptions {
  /**
   * How it comes to know clients beside the registered one: they register themselves (RFC 7591), their id is the URL of a
   * metadata document, or not at all.
   */
  readonly clients?: 'register' | 'documents' | 'registered'
  /** Authority of the servers of metadata documents, in PEM. */
  readonly ca?: string
  readonly accessTokenTTL?: number
}

/** `scope`: all scopes that there are, separated by spaces. */
export async function startOAuthProvider(
  scope: string,
  { clients = 'register', ca, accessTokenTTL = 3600 }: OAuthProviderOptions = {},
): Promise<OAuthProvider> {
  const server = createServer()
  const listening = await listenOnLoopback(server)
  const issuer = listening.url
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const documents = new Agent({ connect: { ca } })
  const provider = new Provider(issuer, {
    clients: [{ ...registered, client_id: registeredClient }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'one', use: 'sig', alg: 'RS256' }] },
    scopes: [...scope.split(' '), 'offline_access'],
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: clients === 'register' },
      clientIdMetadataDocument: { enabled: clients === 'documents', ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, audience) => ({
          scope,
          audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    fetch: (url, init) => fetchWith(url, { ...init, dispatcher: documents }),
    extraTokenClaims: (_context, { accountId = 'nobody' }) => ({
      org: 'acme',
      email: `${accountId}@example.com`,
    }),
  })
  server.on('request', provider.callback())
  return {
    issuer,
    oidc: { issuer, audience: 'an audience that no token here has', jwks_uri: `${issuer}/jwks` },
    async [Symbol.asyncDispose]() {
      await listening[Symbol.asyncDispose]()
      await documents.close()
    },
  }
}
