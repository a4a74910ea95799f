// Reads the keys behind references when they are used, so that a changed key takes effect without a restart and a
// removed one is no longer used.
import type { Clock } from '@svc/core'
import { isKeyError, KeyError, type KeyReader } from '@svc/core/secret'
import { BrokerError } from './broker-error.js'
import type { CredentialSource } from './credential-source.js'

/** How long a key file is cached, so that not every call reads it. */
const fileMs = 1000
/** The same for a CredentialSource, which may need the network. */
const sourceMs = 30_000
const sourceTimeoutMs = 5000
/** The longest value accepted for a header. */
const maxLength = 16_384

interface Read {
  readonly key: string
  /** Monotonic milliseconds. */
  readonly until: number
}

interface KeysOptions {
  readonly reader: KeyReader
  readonly source: CredentialSource | undefined
  readonly clock: Clock
}

export class Keys {
  #options: KeysOptions
  #read = new Map<string, Read>()
  #reading = new Map<string, Promise<string>>()

  constructor(options: KeysOptions) {
    this.#options = options
  }

  /** The key. Rejects with `BrokerError`. */
  async get(ref: string): Promise<string> {
    const known = this.#read.get(ref)
    if (known !== undefined && this.#options.clock.monotonic() < known.until) return known.key
    const reading = this.#reading.get(ref)
    if (reading !== undefined) return reading
    const read = this.#fetch(ref).finally(() => this.#reading.delete(ref))
    this.#reading.set(ref, read)
    return read
  }

  /** For a key that the upstream refused: it is read again on next use, as it may have changed. */
  forget(ref: string): void {
    this.#read.delete(ref)
  }

  async #fetch(ref: string): Promise<string> {
    this.#read.delete(ref)
    try {
      const { kind } = this.#options.reader.locate(ref)
      const key = kind === 'foreign' ? await this.#load(ref) : await this.#options.reader.read(ref)
      if (kind !== 'env') {
        const ttlMs = kind === 'file' ? fileMs : sourceMs
        this.#read.set(ref, { key, until: this.#options.clock.monotonic() + ttlMs })
      }
      return key
    } catch (fault) {
      if (isKeyError(fault)) throw new BrokerError(fault.message, 'no key is usable', { cause: fault })
      throw fault
    }
  }

  /** Ends at the timeout even where the source ignores the signal. */
  async #load(ref: string): Promise<string> {
    const { source } = this.#options
    if (source === undefined) throw new KeyError('key_ref', 'no CredentialSource is bound')
    const timeout = new AbortController()
    const timer = setTimeout(
      () => timeout.abort(new Error(`no answer within ${sourceTimeoutMs} ms`)),
      sourceTimeoutMs,
    )
    try {
      const key: unknown = await Promise.race([aborted(timeout.signal), source.load(ref, timeout.signal)])
      if (typeof key === 'string' && key.trim() !== '' && key.length <= maxLength) return key.trim()
    } catch (cause) {
      throw new KeyError('key_unreadable', 'the CredentialSource failed', { cause })
    } finally {
      clearTimeout(timer)
    }
    throw new KeyError(
      'key_malformed',
      `the CredentialSource did not return a string of 1 to ${maxLength} characters`,
    )
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
