// Creates a broker from its configuration, with the defaults of each type.
import { type Clock, type PluginContext, resolveOptional, tokens } from '@svc/core'
import { canonicalize } from '@svc/core/json'
import { AssertionAuth, type ClientAuth, SecretAuth } from './client-auth.js'
import type { BrokerConfig } from './config.js'
import { ExchangedTokenCache } from './exchanged-token-cache.js'
import type { HeaderWriter } from './header.js'
import { KeyRotation } from './key-rotation.js'
import type { Keys } from './keys.js'
import { OnBehalfBroker } from './on-behalf-broker.js'
import { PoolBroker } from './pool-broker.js'
import { TokenEndpoint } from './token-endpoint.js'

/** What a broker is created from. */
export interface BrokerInput {
  readonly server: string
  readonly config: BrokerConfig
  readonly context: PluginContext
  readonly clock: Clock
  readonly keys: Keys
  readonly header: HeaderWriter
}

export function createPoolBroker({ server, config, context, clock, keys, header }: BrokerInput): PoolBroker {
  const { container, resources } = context
  const refs = config.key_refs ?? []
  return new PoolBroker({
    server,
    refs,
    keys,
    header,
    cooldownMs: (config.cooldown_sec ?? 60) * 1000,
    maxCooldownMs: (config.max_cooldown_sec ?? 3600) * 1000,
    retryOn: config.retry_on ?? [401, 403, 429],
    clock,
    logger: resolveOptional(container, tokens.Logger),
    meter: resolveOptional(container, tokens.Meter),
    leaseRotation: () =>
      resources.acquire(`brokers rotation ${canonicalize({ server, refs })}`, () => ({
        value: new KeyRotation(refs.length),
        close: () => undefined,
      })),
  })
}

export function createOnBehalfBroker(input: BrokerInput): OnBehalfBroker {
  const { server, config, context, clock, header } = input
  const { token_endpoint: url = '' } = config
  const options = { url, form: formOf(config), timeoutMs: config.timeout_ms ?? 5000 }
  return new OnBehalfBroker({
    header,
    clock,
    endpoint: new TokenEndpoint(options, authOf(input)),
    exchangeDescription: describeExchange(config),
    leaseTokens: () =>
      context.resources.acquire(`brokers tokens ${canonicalize({ server, config })}`, () => {
        const value = new ExchangedTokenCache({
          size: config.cache_size ?? 10_000,
          marginMs: (config.expiry_margin_sec ?? 30) * 1000,
          clock,
          meter: resolveOptional(context.container, tokens.Meter),
        })
        return { value, close: () => value.clear() }
      }),
  })
}

/** How the gateway authenticates to the token endpoint. */
export function authOf({ config, keys, clock }: BrokerInput): ClientAuth {
  const { client_id: clientId = '', client_secret_ref: secret, private_key_ref: key = '' } = config
  if (secret !== undefined) {
    return new SecretAuth(
      { clientId, ref: secret, method: config.client_auth ?? 'client_secret_basic' },
      keys,
    )
  }
  const options = {
    clientId,
    ref: key,
    kid: config.private_key_id,
    alg: config.private_key_alg,
    audience: config.assertion_audience ?? config.token_endpoint ?? '',
  }
  return new AssertionAuth(options, keys, clock)
}

/** RFC 8693 §2.1. */
function formOf(config: BrokerConfig): Record<string, string> {
  const { audience, resource, scope, subject_token_type, requested_token_type } = config
  const given = { audience, resource, scope, requested_token_type }
  const form = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const type = subject_token_type ?? 'urn:ietf:params:oauth:token-type:access_token'
  return { subject_token_type: type, ...Object.fromEntries(form) }
}

function describeExchange({ token_endpoint: url = '', audience, resource, scope }: BrokerConfig): string {
  const { origin, pathname } = new URL(url)
  const wanted = [
    ...(audience === undefined ? [] : [`for the audience "${audience}"`]),
    ...(resource === undefined ? [] : [`for the resource ${resource}`]),
    ...(scope === undefined ? [] : [`with the scope "${scope}"`]),
  ]
  return [`at ${origin}${pathname}`, ...wanted].join(' ')
}
