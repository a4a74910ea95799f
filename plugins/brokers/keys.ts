// The keys behind references, fetched when they are used, so that a key that changes is taken up without a
// restart and one that is withdrawn is used no longer.
import type { Clock } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { isKeyError, KeyError, type KeyReader } from '@svc/core/secret'
import type { CredentialSource } from './credential-source.js'
import { BrokerFault } from './fault.js'

/** A changed file is seen after this; a busy gateway need not read it for every call. */
const fileMs = 1000
/** The same for a source, which may be a network away. */
const sourceMs = 30_000
const sourceTimeoutMs = 5000
/** No header carries more. */
const maxLength = 16_384

interface Read {
  readonly key: string
  /** Monotonic milliseconds. */
  readonly until: number
}

export interface KeysParts {
  readonly reader: KeyReader
  readonly source: CredentialSource | undefined
  readonly clock: Clock
}

export class Keys {
  #parts: KeysParts
  #read = new Map<string, Read>()
  #reading = new Map<string, Promise<string>>()

  constructor(parts: KeysParts) {
    this.#parts = parts
  }

  /** Why the reference can never be followed; undefined where it may be. */
  fault(ref: string): string | undefined {
    try {
      const { kind } = this.#parts.reader.placeOf(ref)
      if (kind !== 'foreign' || this.#parts.source !== undefined) return undefined
      return 'is neither env:NAME nor file://PATH, and no CredentialSource is bound'
    } catch (fault) {
      return messageOf(fault)
    }
  }

  /** The key. Rejects with `BrokerFault`. */
  async get(ref: string): Promise<string> {
    const known = this.#read.get(ref)
    if (known !== undefined && this.#parts.clock.monotonic() < known.until) return known.key
    const reading = this.#reading.get(ref)
    if (reading !== undefined) return reading
    const read = this.#fetch(ref).finally(() => this.#reading.delete(ref))
    this.#reading.set(ref, read)
    return read
  }

  /** The upstream refused the key: there may be another by now. */
  forget(ref: string): void {
    this.#read.delete(ref)
  }

  async #fetch(ref: string): Promise<string> {
    this.#read.delete(ref)
    try {
      const { kind } = this.#parts.reader.placeOf(ref)
      const key = kind === 'foreign' ? await this.#load(ref) : await this.#parts.reader.read(ref)
      if (kind !== 'env') {
        const holds = kind === 'file' ? fileMs : sourceMs
        this.#read.set(ref, { key, until: this.#parts.clock.monotonic() + holds })
      }
      return key
    } catch (fault) {
      if (isKeyError(fault)) throw new BrokerFault(fault.message, 'no key is usable', { cause: fault })
      throw fault
    }
  }

  /** Within the time limit even where the source does not heed the signal. */
  async #load(ref: string): Promise<string> {
    const { source } = this.#parts
    if (source === undefined) throw new KeyError('key_ref', 'no CredentialSource is bound')
    const late = new AbortController()
    const timer = setTimeout(
      () => late.abort(new Error(`no answer within ${sourceTimeoutMs} ms`)),
      sourceTimeoutMs,
    )
    try {
      const key: unknown = await Promise.race([aborted(late.signal), source.load(ref, late.signal)])
      if (typeof key === 'string' && key.trim() !== '' && key.length <= maxLength) return key.trim()
    } catch (cause) {
      throw new KeyError('key_unreadable', 'the CredentialSource failed', { cause })
    } finally {
      clearTimeout(timer)
    }
    throw new KeyError('key_malformed', `the CredentialSource gave no text of 1 to ${maxLength} characters`)
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
