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
import { type AuthnConfig, audiencesOf, authnSchema, issuersOf, type OidcConfig } from './config.js'
import { checkIssuers } from './doctor.js'
import { HttpJwksSource, jwksSource } from './jwks-source.js'
import { KeyCache } from './key-cache.js'
import { signInIssuer } from './presets.js'
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
    ...issuersOf(config).flatMap(({ scopes }, place) => {
      const path = Array.isArray(config.oidc) ? ['authn', `oidc[${place}]`] : ['authn', 'oidc']
      return unknownServers([...path, 'scopes', 'servers'], scopes?.servers, bindings)
    }),
    ...clientAsAudience(config),
    ...sharedTenants(config),
  ],

  owns: [
    owned(policyTokens.admittedCallers, describeCallers),
    owned(
      policyTokens.needsToken,
      ({ oidc, allowUnauthenticated }: AuthnConfig) => oidc !== undefined || !allowUnauthenticated,
    ),
    owned(policyTokens.knowsUnits, (config: AuthnConfig) => {
      const issuers = issuersOf(config)
      return issuers.length > 0 && issuers.every(({ unitClaim }) => unitClaim !== undefined)
    }),
    owned(policyTokens.knowsUsers, ({ oidc }: AuthnConfig) => oidc !== undefined),
    owned(services.signIn, (config: AuthnConfig) => {
      const issuers = issuersOf(config)
      const found = issuers.find(({ publicClientId }) => publicClientId !== undefined) ?? issuers[0]
      if (found === undefined || config.stdioCaller !== undefined) return undefined
      const [audience = ''] = audiencesOf(found)
      return { issuer: signInIssuer(found.issuer), audience, clientId: found.publicClientId }
    }),
    {
      token: jwksSource,
      bind(config: AuthnConfig, { container }: PluginContext) {
        if (resolveOptional(container, services.inMemory) === true) bindTestIssuer(config, container)
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
      doctor: () => checkIssuers(config, source),
      endpoints: endpointsOf(context),
      lease: () => leaseCaches(config, context, (oidc) => new KeyCache(oidc, { source, clock, logger })),
    })
    bindDefault(container, services.identify, { useValue: stage.identify })
    const { describeResource } = stage
    if (describeResource !== undefined)
      bindDefault(container, services.describeResource, { useValue: describeResource })
    return stage
  },
})

function describeCallers(config: AuthnConfig): string {
  const { allowUnauthenticated } = config
  const names = issuersOf(config).map(({ issuer }) => issuer)
  if (names.length === 0) return allowUnauthenticated ? 'need no token' : 'nobody, as authn allows none'
  return `need a token of ${names.join(' or ')}${allowUnauthenticated ? ', or none' : ''}`
}

/** Tokens of tested calls are signed by a key in memory, in place of those of the issuers. */
function bindTestIssuer(config: AuthnConfig, container: PluginContext['container']): void {
  bind(container, stdioClient, { useValue: true })
  if (config.oidc === undefined) return
  const issuer = new TestIssuer(issuersOf(config), resolve(container, tokens.Clock))
  bind(container, jwksSource, { useValue: issuer })
  bind(container, services.testToken, { useValue: (claims, isWhole) => issuer.tokenOf(claims, isWhole) })
}

/** A token for another API that the same client uses has the same claim. */
function clientAsAudience(config: AuthnConfig): ConfigConflict[] {
  const isOpen = issuersOf(config).some(
    ({ audienceClaim, scopes }) =>
      audienceClaim !== 'aud' && scopes?.required.some((scope) => scope.includes('/')) !== true,
  )
  if (!isOpen) return []
  const message =
    'a token that the client got for another API is accepted too; require a scope of a resource server for this gateway (scopes.required: [gateway/call])'
  return [{ path: ['authn', 'oidc'], message, severity: 'warning' }]
}

function sharedTenants(config: AuthnConfig): ConfigConflict[] {
  const open = issuersOf(config).filter(
    ({ tenant, tenants }) => tenant === undefined && tenants === undefined,
  )
  if (open.length < 2) return []
  const message = `each of ${open.map(({ issuer }) => issuer).join(', ')} may assert every tenant that no other issuer lists; name those of each in tenants`
  return [{ path: ['authn', 'oidc'], message, severity: 'warning' }]
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

/** The caches survive a reload: the keys while their source is unchanged, the tokens while `oidc` is. */
function leaseCaches(
  config: AuthnConfig,
  context: PluginContext,
  open: (oidc: OidcConfig) => KeyCache,
): AuthnLeases {
  const { resources, publicUrl } = context
  // The servers that a cached token gives access to depend on these.
  const audiences = publicUrl === undefined ? null : { publicUrl, ...endpointsOf(context) }
  const issuers = issuersOf(config)
  const size = Math.max(0, ...issuers.map(({ tokenCacheSize }) => tokenCacheSize))
  const seconds = Math.min(...issuers.map(({ tokenCacheSec }) => tokenCacheSec))
  return {
    keys: issuers.map((oidc) => {
      const { jwks_uri, jwks } = oidc
      return resources.acquire(`authn keys ${canonicalize({ jwks_uri, jwks })}`, () => {
        const keys = open(oidc)
        return { value: keys, close: () => keys.close() }
      })
    }),
    tokens: resources.acquire(`authn tokens ${canonicalize({ issuers, audiences })}`, () => ({
      value: new TokenCache(size, seconds * 1000),
      close: () => undefined,
    })),
  }
}
