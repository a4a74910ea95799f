// The caller's own rights at the upstream: its token is exchanged for one that the upstream takes, and never
// forwarded itself.
import { type Call, type Clock, type Credential, identity, type Lease } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { Broker } from './broker.js'
import type { ExchangedTokens, KeptToken } from './exchanged-tokens.js'
import { BrokerFault } from './fault.js'
import type { HeaderWriter } from './header.js'
import type { TokenEndpoint } from './token-endpoint.js'

/** RFC 6750 §2.1. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i
const noToken = 'the call has no bearer token that was validated'
/** An upstream that refuses everything must not make an exchange out of every call. */
const freshMs = 10_000

export interface OnBehalfParts {
  readonly header: HeaderWriter
  readonly endpoint: TokenEndpoint
  readonly clock: Clock
  /** Where tokens are exchanged and what for, in words. */
  readonly about: string
  leaseTokens(): Lease<ExchangedTokens>
}

interface Caller {
  readonly token: string
  readonly digest: string
}

export class OnBehalfBroker implements Broker {
  #parts: OnBehalfParts
  #lease: Lease<ExchangedTokens> | undefined

  constructor(parts: OnBehalfParts) {
    this.#parts = parts
  }

  start(): void {
    this.#lease ??= this.#parts.leaseTokens()
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  async forCall(call: Call): Promise<Credential> {
    const tokens = this.#tokens
    const caller = callerOf(call)
    if (caller === undefined) throw new BrokerFault(noToken, noToken)
    const used = await this.#token(tokens, caller)
    return {
      ...this.#written(used),
      answered: ({ status }) => (status === 401 ? this.#refused(tokens, caller, used) : undefined),
    }
  }

  describe(): string {
    return `exchanges the caller's token ${this.#parts.about}, and puts what it gets into the header "${this.#parts.header.name}"`
  }

  objection(call: Call): string | undefined {
    return call.get(identity)?.authenticated === true ? undefined : noToken
  }

  get #tokens(): ExchangedTokens {
    if (this.#lease === undefined) throw new Error('the broker has not started')
    return this.#lease.value
  }

  #token(tokens: ExchangedTokens, { token, digest }: Caller): Promise<KeptToken> {
    return tokens.get(digest, () => this.#parts.endpoint.exchange(token))
  }

  #written({ token }: KeptToken): Credential {
    return { header: this.#parts.header.name, value: this.#parts.header.value(token) }
  }

  /** A token that was kept may have been revoked since: the call is sent once more with a new one. */
  async #refused(tokens: ExchangedTokens, caller: Caller, used: KeptToken): Promise<Credential | undefined> {
    if (this.#parts.clock.monotonic() - used.since < freshMs) return undefined
    tokens.drop(caller.digest, used)
    try {
      return this.#written(await this.#token(tokens, caller))
    } catch (fault) {
      // The caller has the upstream's answer.
      if (fault instanceof BrokerFault) return undefined
      throw fault
    }
  }
}

/** Undefined without a token that an earlier stage has validated. */
function callerOf(call: Call): Caller | undefined {
  if (call.get(identity)?.authenticated !== true) return undefined
  const { authorization } = call.headers
  const token = typeof authorization === 'string' ? bearer.exec(authorization)?.[1] : undefined
  return token === undefined ? undefined : { token, digest: sha256Hex(token) }
}
