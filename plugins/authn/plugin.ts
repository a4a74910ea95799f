// The `authn` section: who is calling.
import {
  bindDefault,
  canonicalize,
  definePlugin,
  identity,
  type PluginContext,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import { type AuthnConfig, authnSchema, type OidcConfig } from './config.js'
import { HttpJwksSource, jwksSource } from './jwks-source.js'
import { KeyCache } from './key-cache.js'
import { type AuthnLeases, AuthnStage, whatToSet } from './stage.js'
import { TokenCache } from './token-cache.js'

export const authnPlugin = definePlugin<AuthnConfig>({
  name: 'authn',
  version: '0.1.0',
  core: '^1.0.0',
  schema: authnSchema,
  presence: 'always',
  provides: [identity],
  absent: `without an authn section every call is answered 401 UNAUTHENTICATED; ${whatToSet}`,

  facts: (config) => ({ hasOidc: config.oidc !== undefined }),

  register(container) {
    bindDefault(container, jwksSource, { useFactory: () => new HttpJwksSource() })
  },

  create(config, context) {
    const { container, tenant } = context
    if (config.oidc !== undefined && config.allowUnauthenticated) {
      context.warn(`authn.allowUnauthenticated: calls without a token are let in, as tenant "${tenant}"`)
    }
    const source = resolve(container, jwksSource)
    const clock = resolve(container, tokens.Clock)
    const logger = resolveOptional(container, tokens.Logger)
    return new AuthnStage(config, {
      clock,
      tenant,
      lease: (oidc) => leaseCaches(oidc, context, () => new KeyCache(oidc, { source, clock, logger })),
    })
  },
})

/** The keys live on while how they are fetched stays the same, the tokens while nothing about them changes. */
function leaseCaches(oidc: OidcConfig, { resources }: PluginContext, open: () => KeyCache): AuthnLeases {
  const { jwks_uri, jwks, tokenCacheSize, tokenCacheSec } = oidc
  return {
    keys: resources.acquire(`authn keys ${canonicalize({ jwks_uri, jwks })}`, () => {
      const keys = open()
      return { value: keys, close: () => keys.close() }
    }),
    tokens: resources.acquire(`authn tokens ${canonicalize(oidc)}`, () => ({
      value: new TokenCache(tokenCacheSize, tokenCacheSec * 1000),
      close: () => undefined,
    })),
  }
}
