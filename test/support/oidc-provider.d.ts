// The part of oidc-provider that the tests use; it ships no types.
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'
  import type { JWK } from 'jose'
  import type { RequestInit } from 'undici'

  interface ResourceServer {
    readonly scope: string
    readonly audience?: string
    readonly accessTokenFormat: 'jwt' | 'opaque'
    readonly accessTokenTTL?: number
    readonly jwt?: { readonly sign: { readonly alg: string } }
  }

  interface Configuration {
    readonly clients: readonly Record<string, unknown>[]
    readonly jwks: { readonly keys: readonly JWK[] }
    readonly scopes?: readonly string[]
    readonly features: {
      readonly devInteractions: { readonly enabled: boolean }
      readonly clientCredentials?: { readonly enabled: boolean }
      /** draft-ietf-oauth-client-id-metadata-document. */
      readonly clientIdMetadataDocument?: { readonly enabled: boolean; readonly ack?: string }
      /** RFC 7591. */
      readonly registration?: { readonly enabled: boolean }
      readonly resourceIndicators: {
        readonly enabled: boolean
        defaultResource?(): string
        getResourceServerInfo(context: unknown, resource: string): ResourceServer
        useGrantedResource?(): boolean
      }
    }
    /** What it fetches metadata documents by. */
    fetch?(url: string, init: RequestInit): Promise<unknown>
    extraTokenClaims?(
      context: unknown,
      token: { readonly clientId?: string; readonly accountId?: string },
    ): Record<string, unknown> | undefined
  }

  interface GrantContext {
    readonly oidc: {
      readonly client: { readonly clientId: string }
      readonly params: Readonly<Record<string, string | undefined>>
    }
    body: unknown
  }

  export class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
    /** `params` are those the grant reads. */
    registerGrantType(
      name: string,
      handler: (context: GrantContext) => Promise<void>,
      params: readonly string[],
    ): void
  }

  export const errors: {
    readonly InvalidGrant: new (description: string) => Error
    readonly InvalidTarget: new (description: string) => Error
  }
}
