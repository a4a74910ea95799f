// Several keys of one vendor, used round-robin. A key that the upstream refuses is put into cooldown, and the refused
// call is repeated once with the next key.
import {
  type Call,
  type Credential,
  identity,
  type Lease,
  type Logger,
  mcpFacts,
  principalKeyOf,
  type ResponseHead,
  resolveOptional,
  tokens,
} from '@svc/core'
import { retryAfterMs } from '@svc/core/http'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { Broker, BrokerInput } from './broker.js'
import { BrokerError } from './broker-error.js'
import { GATEWAY, KeyRotation } from './key-rotation.js'

const SESSION = 'mcp-session-id'
const refusals: readonly number[] = [401, 403, 429]
/** The least cooldown, even if Retry-After is 0: an immediate retry would be refused again. */
const minCooldownMs = 1000

/** The key selected for one call. */
interface SelectedKey {
  readonly index: number
  readonly caller: string
  readonly credential: Credential
}

export class PoolBroker implements Broker {
  #input: BrokerInput
  #refs: readonly string[]
  #logger: Logger | undefined
  #lease: Lease<KeyRotation> | undefined

  constructor(input: BrokerInput) {
    this.#input = input
    this.#refs = input.config.key_refs ?? []
    this.#logger = resolveOptional(input.context.container, tokens.Logger)
  }

  start(): void {
    const { server, context } = this.#input
    const refs = this.#refs
    this.#lease ??= context.resources.acquire(`brokers rotation ${canonicalize({ server, refs })}`, () => ({
      value: new KeyRotation(refs.length),
      close: () => undefined,
    }))
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  async forCall(call: Call): Promise<Credential> {
    const id = call.get(mcpFacts)?.().serverSessionId
    const session = id === undefined ? undefined : sha256Hex(id)
    const preferred = session === undefined ? undefined : this.#rotation.keyOf(session)
    const caller = call.get(identity)
    const name = caller === undefined ? '' : principalKeyOf(caller)
    return this.#credentialFor(await this.#selectKey(name, preferred), session)
  }

  async own(): Promise<Credential> {
    return this.#credentialFor(await this.#selectKey(GATEWAY, undefined), undefined)
  }

  describe(): string {
    return `puts one of ${this.#refs.length} keys, round-robin, into the header "${this.#input.header.name}"`
  }

  get #rotation(): KeyRotation {
    if (this.#lease === undefined) throw new Error('the broker has not started')
    return this.#lease.value
  }

  #credentialFor(used: SelectedKey, session: string | undefined): Credential {
    return { ...used.credential, onResponse: (head) => this.#onResponse(head, used, session) }
  }

  async #onResponse(
    head: ResponseHead,
    used: SelectedKey,
    session: string | undefined,
  ): Promise<Credential | undefined> {
    if (!refusals.includes(head.status)) {
      this.#recordWork(head, used, session)
      return undefined
    }
    this.#coolDown(head, used)
    const { retry_on: retryOn = refusals } = this.#input.config
    if (!retryOn.some((status) => status === head.status)) return undefined
    const next = await this.#nextKey(used)
    if (next === undefined) return undefined
    return {
      ...next.credential,
      onResponse: (last) => {
        if (!refusals.includes(last.status)) this.#recordWork(last, next, session)
        else this.#coolDown(last, next)
        // 403 with two keys: the call is refused, not the key. A caller must not be able to exhaust the pool.
        if (head.status === 403 && last.status === 403) this.#endCooldown(used, next)
        return undefined
      },
    }
  }

  /** An MCP session stays with its key, as a server may bind sessions to credentials. */
  #recordWork({ status, headers }: ResponseHead, { index }: SelectedKey, session: string | undefined): void {
    if (status < 500) this.#rotation.worked(index)
    if (status >= 300) return
    const created = headers[SESSION]
    const id = session ?? (typeof created === 'string' ? sha256Hex(created) : undefined)
    if (id !== undefined && this.#rotation.keyOf(id) !== index) this.#rotation.setKeyOf(id, index)
  }

  #coolDown({ status, headers }: ResponseHead, { index, caller }: SelectedKey): void {
    const { clock, keys, server, meter, config } = this.#input
    const { cooldown_sec: cooldownSec = 60, max_cooldown_sec: maxCooldownSec = 3600 } = config
    const requested = retryAfterMs(headers['retry-after'], clock.now()) ?? cooldownSec * 1000
    const ms = Math.min(Math.max(requested, minCooldownMs), maxCooldownSec * 1000)
    this.#rotation.coolDown(index, caller, clock.monotonic() + ms)
    keys.forget(this.#refs[index] ?? '')
    meter?.count('svc_broker_key_cooldowns_total')
    this.#logger?.warn(
      { server, key: nameOf(index), status, seconds: ms / 1000 },
      'a key of the pool is in cooldown',
    )
  }

  #endCooldown(...used: readonly SelectedKey[]): void {
    for (const { index, caller } of used) this.#rotation.endCooldown(index, caller)
    const keys = used.map(({ index }) => nameOf(index))
    this.#logger?.info(
      { server: this.#input.server, keys },
      'the upstream responded with 403 with both keys: neither is put into cooldown',
    )
  }

  async #nextKey({ index, caller, credential }: SelectedKey): Promise<SelectedKey | undefined> {
    try {
      const next = await this.#selectKey(caller, undefined, index)
      // The same key under another reference would be refused again.
      return next.credential.value === credential.value ? undefined : next
    } catch (error) {
      // Without another key the caller gets the upstream's response.
      if (error instanceof BrokerError) return undefined
      throw error
    }
  }

  /** Rejects with `BrokerError` when every key is in cooldown or cannot be read. */
  async #selectKey(caller: string, preferred: number | undefined, except?: number): Promise<SelectedKey> {
    const { clock, keys, header } = this.#input
    const errors: string[] = []
    for (const index of this.#rotation.usable(caller, clock.monotonic(), preferred)) {
      const ref = this.#refs[index]
      if (ref === undefined || index === except) continue
      // Advanced before the await, so that concurrent calls get different keys. The key of a session does not advance
      // the round-robin.
      if (index !== preferred) this.#rotation.used(index)
      try {
        const value = header.value(await keys.get(ref))
        return { index, caller, credential: { header: header.name, value } }
      } catch (error) {
        if (!(error instanceof BrokerError)) throw error
        errors.push(`${nameOf(index)}: ${error.message}`)
      }
    }
    throw this.#noKeyAvailable(caller, errors)
  }

  #noKeyAvailable(caller: string, errors: readonly string[]): BrokerError {
    const { clock } = this.#input
    const refs = this.#refs
    const seconds = Math.ceil(this.#rotation.nextAvailableIn(caller, clock.monotonic()) / 1000)
    const cooling = refs.length - errors.length
    const parts = [
      ...(cooling > 0
        ? [`${cooling} of ${refs.length} keys are in cooldown, for ${seconds} s or longer`]
        : []),
      ...errors,
    ]
    return new BrokerError(parts.join('; '), 'no key is usable now')
  }
}

/** The path of the key in the policy. */
function nameOf(index: number): string {
  return `key_refs[${index}]`
}
