// The `authn` section: authenticates the caller.
import {
  bind,
  bindDefault,
  type ConfigConflict,
  definePlugin,
  hostOf,
  identity,
  owned,
  type PluginContext,
  type PolicyHost,
  policyTokens,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { canonicalize } from '@svc/core/json'
import { unknownServers } from '@svc/core/policy'
import type { EndpointNames } from './audience.js'
import { type AuthnConfig, authnSchema, type OidcConfig } from './config.js'
import { checkIssuer } from './doctor.js'
import { HttpJwksSource, jwksSource } from './jwks-source.js'
import { KeyCache } from './key-cache.js'
import { type AuthnLeases, AuthnStage, configurationHint } from './stage.js'
import { stdioCallerOf, stdioClient } from './stdio-caller.js'
import { TestIssuer } from './test-issuer.js'
import { TokenCache } from './token-cache.js'

export const authnPlugin = definePlugin({
  name: 'authn',
  version: '1.0.0',
  core: '^1.0.0',
  schema: authnSchema,
  phase: 'authentication',
  provides: [identity],

  check: (config, bindings) => [
    ...closed(config, hostOf(bindings)),
    ...openToNetwork(config, hostOf(bindings)),
    // With a misspelled name, the intended server would be without its scopes.
    ...unknownServers(['authn', 'oidc', 'scopes', 'servers'], config.oidc?.scopes?.servers, bindings),
  ],

  owns: [
    owned(policyTokens.admittedCallers, describeCallers),
    owned(
      policyTokens.needsToken,
      ({ oidc, allowUnauthenticated }: AuthnConfig) => oidc !== undefined || !allowUnauthenticated,
    ),
    owned(policyTokens.knowsUnits, ({ oidc }: AuthnConfig) => oidc?.unitClaim !== undefined),
    owned(policyTokens.knowsUsers, ({ oidc }: AuthnConfig) => oidc !== undefined),
    owned(services.signIn, ({ oidc, stdioCaller }: AuthnConfig) => {
      if (oidc === undefined || stdioCaller !== undefined) return undefined
      const { issuer, audience, publicClientId: clientId } = oidc
      return { issuer, audience, clientId }
    }),
    {
      token: jwksSource,
      bind({ oidc }: AuthnConfig, { container }: PluginContext) {
        if (resolveOptional(container, services.inMemory) === true) bindTestIssuer(oidc, container)
        bindDefault(container, jwksSource, { useFactory: () => new HttpJwksSource() })
      },
    },
  ],

  create(config, context) {
    const { container, tenant, publicUrl } = context
    if (config.oidc !== undefined && config.allowUnauthenticated) {
      context.warn(`authn.allowUnauthenticated: calls without a token are accepted, as tenant "${tenant}"`)
    }
    const source = resolve(container, jwksSource)
    const clock = resolve(container, tokens.Clock)
    const logger = resolveOptional(container, tokens.Logger)
    const isStdio = resolveOptional(container, stdioClient) === true
    const { stdioCaller } = config
    const stage = new AuthnStage(config, {
      ...(isStdio && stdioCaller !== undefined ? { stdioCaller: stdioCallerOf(stdioCaller, tenant) } : {}),
      clock,
      tenant,
      publicUrl,
      doctor: () => checkIssuer(config, source),
      endpoints: endpointsOf(context),
      lease: (oidc) => leaseCaches(oidc, context, () => new KeyCache(oidc, { source, clock, logger })),
    })
    bindDefault(container, services.identify, { useValue: stage.identify })
    const { describeResource } = stage
    if (describeResource !== undefined)
      bindDefault(container, services.describeResource, { useValue: describeResource })
    return stage
  },
})

function describeCallers({ oidc, allowUnauthenticated }: AuthnConfig): string {
  if (oidc === undefined) return allowUnauthenticated ? 'need no token' : 'nobody, as authn allows none'
  return `need a token of ${oidc.issuer}${allowUnauthenticated ? ', or none' : ''}`
}

/** Tokens of tested calls are signed by a key in memory, in place of those of the issuer. */
function bindTestIssuer(oidc: OidcConfig | undefined, container: PluginContext['container']): void {
  bind(container, stdioClient, { useValue: true })
  if (oidc === undefined) return
  const issuer = new TestIssuer(oidc, resolve(container, tokens.Clock))
  bind(container, jwksSource, { useValue: issuer })
  bind(container, services.testToken, { useValue: (claims, isWhole) => issuer.tokenOf(claims, isWhole) })
}

/** A program may say itself who calls. */
function closed(
  { oidc, allowUnauthenticated, stdioCaller }: AuthnConfig,
  { callers }: PolicyHost,
): ConfigConflict[] {
  if (allowUnauthenticated || oidc !== undefined || stdioCaller !== undefined || callers === 'program')
    return []
  const message = `every call is refused with 401 UNAUTHENTICATED; ${configurationHint}`
  return [{ path: ['authn'], message, severity: 'warning' }]
}

/** TLS keeps a call from being read, and says nothing about who makes it. */
function openToNetwork({ allowUnauthenticated }: AuthnConfig, host: PolicyHost): ConfigConflict[] {
  if (!allowUnauthenticated || host.callers !== 'remote') return []
  const message = `callers on other machines need no token, and each is of tenant "${host.tenant}"; remove it, set server.tls.clientCa, or listen on loopback`
  return [{ path: ['authn', 'allowUnauthenticated'], message, severity: 'warning' }]
}

function endpointsOf({ targets, groups = {} }: PluginContext): EndpointNames {
  return { servers: Object.keys(targets).sort(), groups }
}

/** Both caches survive a reload: the keys while their source is unchanged, the tokens while `oidc` is. */
function leaseCaches(oidc: OidcConfig, context: PluginContext, open: () => KeyCache): AuthnLeases {
  const { resources, publicUrl } = context
  // The servers that a cached token gives access to depend on these.
  const audiences = publicUrl === undefined ? null : { publicUrl, ...endpointsOf(context) }
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
