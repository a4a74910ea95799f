// What an application keeps of OAuth for one user, for the clients of the MCP SDK, versions 1 and 2.
import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js'
import { decodeJwt } from 'jose'
import { registered } from './oauth-provider.js'

/** Where its id comes from: given by the user, the URL of a metadata document, or else a registration of its own. */
export interface OAuthClientId {
  readonly clientId?: string
  readonly metadataUrl?: string
}

/** An `OAuthClientProvider` whose user has not been sent to sign in yet. */
export class OAuthClient {
  readonly redirectUrl = 'http://127.0.0.1:1/callback'
  readonly clientMetadata = { client_name: 'test', ...registered, redirect_uris: [this.redirectUrl] }
  readonly clientMetadataUrl?: string
  /** Where the user was sent. */
  sentTo: URL | undefined
  #client: OAuthClientInformationMixed | undefined
  #tokens: OAuthTokens | undefined
  #verifier = ''

  constructor({ clientId, metadataUrl }: OAuthClientId = {}) {
    if (clientId !== undefined) this.#client = { client_id: clientId }
    if (metadataUrl !== undefined) this.clientMetadataUrl = metadataUrl
  }

  clientInformation = () => this.#client
  saveClientInformation(client: OAuthClientInformationMixed): void {
    this.#client = client
  }
  tokens = () => this.#tokens
  saveTokens(tokens: OAuthTokens): void {
    this.#tokens = tokens
  }
  redirectToAuthorization(url: URL): void {
    this.sentTo = url
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier
  }
  codeVerifier = () => this.#verifier

  get claims(): Record<string, unknown> {
    return decodeJwt(this.#tokens?.access_token ?? '')
  }
}
