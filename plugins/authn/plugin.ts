// The `authn` section: authenticates the caller.
import {
  bindDefault,
  definePlugin,
  identity,
  type PluginContext,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import { canonicalize } from '@svc/core/json'
import { nearest } from '@svc/core/policy'
import { authnSchema, type OidcConfig } from './config.js'
import { HttpJwksSource, jwksSource } from './jwks-source.js'
import { KeyCache } from './key-cache.js'
import { type AuthnLeases, AuthnStage, configurationHint } from './stage.js'
import { TokenCache } from './token-cache.js'

export const authnPlugin = definePlugin({
  name: 'authn',
  version: '0.1.0',
  core: '^1.0.0',
  schema: authnSchema,
  phase: 'authentication',
  presence: 'always',
  provides: [identity],
  absent: `without an authn section every call is answered 401 UNAUTHENTICATED; ${configurationHint}`,

  facts: (config) => ({ hasOidc: config.oidc !== undefined }),

  register(_config, { container }) {
    bindDefault(container, jwksSource, { useFactory: () => new HttpJwksSource() })
  },

  create(config, context) {
    const { container, tenant, publicUrl } = context
    if (config.oidc !== undefined && config.allowUnauthenticated) {
      context.warn(`authn.allowUnauthenticated: calls without a token are accepted, as tenant "${tenant}"`)
    }
    warnOfUnknownServers(Object.keys(config.oidc?.scopes?.servers ?? {}), context)
    const source = resolve(container, jwksSource)
    const clock = resolve(container, tokens.Clock)
    const logger = resolveOptional(container, tokens.Logger)
    return new AuthnStage(config, {
      clock,
      tenant,
      publicUrl,
      servers: Object.keys(context.targets),
      lease: (oidc) => leaseCaches(oidc, context, () => new KeyCache(oidc, { source, clock, logger })),
    })
  },
})

/** Both caches survive a reload: the keys while their source is unchanged, the tokens while `oidc` is. */
function leaseCaches(oidc: OidcConfig, context: PluginContext, open: () => KeyCache): AuthnLeases {
  const { resources, publicUrl, targets } = context
  // The servers that a cached token gives access to depend on these.
  const audiences = publicUrl === undefined ? null : { publicUrl, servers: Object.keys(targets).sort() }
  const { jwks_uri, jwks, tokenCacheSize, tokenCacheSec } = oidc
  return {
    keys: resources.acquire(`authn keys ${canonicalize({ jwks_uri, jwks })}`, () => {
      const keys = open()
      return { value: keys, close: () => keys.close() }
    }),
    tokens: resources.acquire(`authn tokens ${canonicalize({ oidc, audiences })}`, () => ({
      value: new TokenCache(tokenCacheSize, tokenCacheSec * 1000),
      close: () => undefined,
    })),
  }
}

// A misspelt server name would leave the intended server without its scopes.
function warnOfUnknownServers(servers: readonly string[], context: PluginContext): void {
  const known = Object.keys(context.targets)
  for (const server of servers) {
    if (known.some((name) => name.normalize('NFC') === server.normalize('NFC'))) continue
    const meant = nearest(server, known)
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
    context.warn(`authn.oidc.scopes.servers: no target is named "${server}"${hint}`)
  }
}
