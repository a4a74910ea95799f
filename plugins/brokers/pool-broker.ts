// Several keys of one vendor, used in turn. A key that the upstream refuses rests, and the refused call is
// sent once more with the next one.
import type { AnswerHead, Call, Clock, Credential, Lease, Logger, Meter } from '@svc/core'
import { retryAfterMs } from '@svc/core/http'
import { sha256Hex } from '@svc/core/json'
import type { Broker } from './broker.js'
import { BrokerFault } from './fault.js'
import type { HeaderWriter } from './header.js'
import type { KeyRota } from './key-rota.js'
import type { Keys } from './keys.js'

const SESSION = 'mcp-session-id'
const refusals: readonly number[] = [401, 403, 429]
/** A key that is refused again at once has gained nothing by waking. */
const leastRestMs = 1000

export interface PoolParts {
  readonly server: string
  readonly refs: readonly string[]
  readonly keys: Keys
  readonly header: HeaderWriter
  readonly restMs: number
  readonly maxRestMs: number
  /** Statuses after which a call is sent once more. */
  readonly retryOn: readonly number[]
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
  leaseRota(): Lease<KeyRota>
}

/** A key in use for one call. */
interface InUse {
  readonly index: number
  readonly credential: Credential
}

export class PoolBroker implements Broker {
  #parts: PoolParts
  #lease: Lease<KeyRota> | undefined

  constructor(parts: PoolParts) {
    this.#parts = parts
  }

  start(): void {
    this.#lease ??= this.#parts.leaseRota()
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  async forCall(call: Call): Promise<Credential> {
    const header = call.headers[SESSION]
    const session = typeof header === 'string' ? sha256Hex(header) : undefined
    const preferred = session === undefined ? undefined : this.#rota.keyOf(session)
    return this.#offer(await this.#pick(preferred), session)
  }

  async own(): Promise<Credential> {
    return this.#offer(await this.#pick(undefined), undefined)
  }

  describe(): string {
    return `puts one of ${this.#parts.refs.length} keys, in turn, into the header "${this.#parts.header.name}"`
  }

  get #rota(): KeyRota {
    if (this.#lease === undefined) throw new Error('the broker has not started')
    return this.#lease.value
  }

  #offer(used: InUse, session: string | undefined): Credential {
    return { ...used.credential, answered: (head) => this.#answered(head, used, session) }
  }

  async #answered(
    head: AnswerHead,
    used: InUse,
    session: string | undefined,
  ): Promise<Credential | undefined> {
    if (!refusals.includes(head.status)) {
      this.#noteSession(head, used, session)
      return undefined
    }
    this.#rest(head, used)
    if (!this.#parts.retryOn.includes(head.status)) return undefined
    const next = await this.#other(used)
    if (next === undefined) return undefined
    return {
      ...next.credential,
      answered: (last) => {
        if (!refusals.includes(last.status)) this.#noteSession(last, next, session)
        else this.#rest(last, next)
        // Two keys that are both forbidden: it is the call that is refused, and no caller may tire out the pool.
        if (head.status === 403 && last.status === 403) this.#wake(used, next)
        return undefined
      },
    }
  }

  /** Whoever began an MCP session goes on with it: a server may bind sessions to credentials. */
  #noteSession({ status, headers }: AnswerHead, { index }: InUse, session: string | undefined): void {
    if (status >= 300) return
    const begun = headers[SESSION]
    const id = session ?? (typeof begun === 'string' ? sha256Hex(begun) : undefined)
    if (id !== undefined && this.#rota.keyOf(id) !== index) this.#rota.serve(id, index)
  }

  #rest({ status, headers }: AnswerHead, { index }: InUse): void {
    const { clock, keys, refs, restMs, maxRestMs, server, logger, meter } = this.#parts
    const asked = retryAfterMs(headers['retry-after'], clock.now()) ?? restMs
    const ms = Math.min(Math.max(asked, leastRestMs), maxRestMs)
    this.#rota.rest(index, clock.monotonic() + ms)
    keys.forget(refs[index] ?? '')
    meter?.count('svc_broker_key_rests_total')
    logger?.warn({ server, key: nameOf(index), status, seconds: ms / 1000 }, 'a key of the pool rests')
  }

  #wake(...used: readonly InUse[]): void {
    for (const { index } of used) this.#rota.wake(index)
    const keys = used.map(({ index }) => nameOf(index))
    this.#parts.logger?.info(
      { server: this.#parts.server, keys },
      'both keys are forbidden the call: neither rests',
    )
  }

  async #other({ index, credential }: InUse): Promise<InUse | undefined> {
    try {
      const next = await this.#pick(undefined, index)
      // The same key under two references would be refused the same way.
      return next.credential.value === credential.value ? undefined : next
    } catch (fault) {
      // The caller has the upstream's answer, which says more than that there is no other key.
      if (fault instanceof BrokerFault) return undefined
      throw fault
    }
  }

  /** Rejects with `BrokerFault` when every key rests or cannot be read. */
  async #pick(preferred: number | undefined, except?: number): Promise<InUse> {
    const { clock, refs, keys, header } = this.#parts
    const faults: string[] = []
    for (const index of this.#rota.usable(clock.monotonic(), preferred)) {
      const ref = refs[index]
      if (ref === undefined || index === except) continue
      // Before waiting, so that calls of one moment spread. A session that goes on with its key takes nobody's turn.
      if (index !== preferred) this.#rota.used(index)
      try {
        const value = header.value(await keys.get(ref))
        return { index, credential: { header: header.name, value } }
      } catch (fault) {
        if (!(fault instanceof BrokerFault)) throw fault
        faults.push(`${nameOf(index)}: ${fault.message}`)
      }
    }
    throw this.#noneLeft(faults)
  }

  #noneLeft(faults: readonly string[]): BrokerFault {
    const { clock, refs } = this.#parts
    const seconds = Math.ceil(this.#rota.wakesIn(clock.monotonic()) / 1000)
    const resting = refs.length - faults.length
    const parts = [
      ...(resting > 0 ? [`${resting} of ${refs.length} keys rest, the next for ${seconds} s`] : []),
      ...faults,
    ]
    return new BrokerFault(parts.join('; '), 'no key is usable now')
  }
}

/** As the policy has it. */
function nameOf(index: number): string {
  return `key_refs[${index}]`
}
