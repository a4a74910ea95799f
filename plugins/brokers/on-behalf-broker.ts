// Calls the upstream with the caller's own rights: the caller's token is exchanged for one that the upstream accepts
// (RFC 8693). It is never forwarded itself.
import { type Call, type Credential, identity, type Lease, principalKeyOf } from '@svc/core'
import { bearerTokenIn } from '@svc/core/http'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { Broker, BrokerInput } from './broker.js'
import { BrokerError } from './broker-error.js'
import type { BrokerConfig } from './config.js'
import { type CachedToken, ExchangedTokenCache, type Exchanging } from './exchanged-token-cache.js'
import { TokenEndpoint } from './token-endpoint.js'

const noToken = 'the call has no validated bearer token'
/** A younger token is not replaced: an upstream that refuses every token must not cause an exchange per call. */
const minTokenAgeMs = 10_000

interface Caller extends Exchanging {
  readonly token: string
}

export class OnBehalfBroker implements Broker {
  #input: BrokerInput
  #endpoint: TokenEndpoint
  #lease: Lease<ExchangedTokenCache> | undefined

  constructor(input: BrokerInput) {
    this.#input = input
    this.#endpoint = new TokenEndpoint(input)
  }

  start(): void {
    const { server, config, context } = this.#input
    this.#lease ??= context.resources.acquire(`brokers tokens ${canonicalize({ server, config })}`, () => {
      const value = new ExchangedTokenCache(this.#input)
      return { value, close: () => value.clear() }
    })
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  async forCall(call: Call): Promise<Credential> {
    const tokens = this.#tokens
    const caller = callerOf(call)
    if (caller === undefined) throw new BrokerError(noToken, noToken)
    const used = await this.#token(tokens, caller)
    return {
      ...this.#credentialOf(used),
      onResponse: ({ status }) => (status === 401 ? this.#refused(tokens, caller, used) : undefined),
    }
  }

  describe(): string {
    return `exchanges the caller's token ${describeExchange(this.#input.config)}, and puts the issued token into the header "${this.#input.header.name}"`
  }

  unavailableReason(call: Call): string | undefined {
    return call.get(identity)?.authenticated === true ? undefined : noToken
  }

  get #tokens(): ExchangedTokenCache {
    if (this.#lease === undefined) throw new Error('the broker has not started')
    return this.#lease.value
  }

  #token(tokens: ExchangedTokenCache, caller: Caller): Promise<CachedToken> {
    return tokens.get(caller, () => this.#endpoint.exchange(caller.token))
  }

  #credentialOf({ token }: CachedToken): Credential {
    return { header: this.#input.header.name, value: this.#input.header.value(token) }
  }

  /** A cached token may have been revoked: the call is repeated once with a new one. */
  async #refused(
    tokens: ExchangedTokenCache,
    caller: Caller,
    used: CachedToken,
  ): Promise<Credential | undefined> {
    if (this.#input.clock.monotonic() - used.since < minTokenAgeMs) return undefined
    tokens.drop(caller.digest, used)
    try {
      return this.#credentialOf(await this.#token(tokens, caller))
    } catch (error) {
      // Without a new token the caller gets the upstream's response.
      if (error instanceof BrokerError) return undefined
      throw error
    }
  }
}

/** The caller and its token; undefined unless an earlier stage has validated the token. */
function callerOf(call: Call): Caller | undefined {
  const known = call.get(identity)
  if (known?.authenticated !== true) return undefined
  const token = bearerTokenIn(call.headers.authorization)
  return token === undefined
    ? undefined
    : { token, digest: sha256Hex(token), principal: principalKeyOf(known) }
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
