// Reads the keys behind references when they are used, so that a changed key takes effect without a restart and a
// removed one is no longer used.
import { type Clock, token, withTimeout } from '@svc/core'
import { cachedFor, isKeyError, KeyError, type KeyReader } from '@svc/core/secret'
import { BrokerError } from './broker-error.js'

/** Bind `credentialSource` for key references that are neither `env:` nor `file://`. */
export interface CredentialSource {
  /**
   * The key for `ref` as written in the policy, for example `vault:kv/billing#key`. Rejects when the key is not
   * available; the error is logged, so it must not contain the key. `signal` aborts at the timeout.
   */
  load(ref: string, signal: AbortSignal): Promise<string>
}

export const credentialSource = token<CredentialSource>('brokers/CredentialSource')

/** How long a key is cached, so that not every call reads a file. */
const fileMs = 1000
/** How long a key of a CredentialSource is cached, which may need the network. */
const sourceMs = 30_000
const sourceTimeoutMs = 5000
/** The longest value accepted for a header. */
const maxLength = 16_384

interface KeysOptions {
  readonly reader: KeyReader
  readonly source: CredentialSource | undefined
  readonly clock: Clock
}

export class Keys {
  #options: KeysOptions
  #reads = new Map<string, () => Promise<string>>()

  constructor(options: KeysOptions) {
    this.#options = options
  }

  /** The key. Rejects with `BrokerError`. */
  async get(ref: string): Promise<string> {
    try {
      const read = this.#reads.get(ref) ?? this.#cached(ref)
      return await read()
    } catch (error) {
      if (isKeyError(error)) throw new BrokerError(error.message, 'no key is usable', { cause: error })
      throw error
    }
  }

  /** Forgets a key that the upstream refused: it is read again on next use, as it may have changed. */
  forget(ref: string): void {
    this.#reads.delete(ref)
    this.#options.reader.refuse(ref)
  }

  #cached(ref: string): () => Promise<string> {
    const { reader, clock } = this.#options
    const isForeign = reader.locate(ref).kind === 'foreign'
    const read = isForeign
      ? cachedFor(sourceMs, clock, () => this.#load(ref))
      : cachedFor(fileMs, clock, () => reader.read(ref))
    this.#reads.set(ref, read)
    return read
  }

  async #load(ref: string): Promise<string> {
    const { source } = this.#options
    if (source === undefined) throw new KeyError('key_ref', 'no CredentialSource is bound')
    const error = new Error(`no response within ${sourceTimeoutMs} ms`)
    let key: unknown
    try {
      key = await withTimeout({ ms: sourceTimeoutMs, error }, (signal) => source.load(ref, signal))
    } catch (cause) {
      throw new KeyError('key_unreadable', 'the CredentialSource failed', { cause })
    }
    if (typeof key === 'string' && key.trim() !== '' && key.length <= maxLength) return key.trim()
    throw new KeyError(
      'key_malformed',
      `the CredentialSource did not return a string of 1 to ${maxLength} characters`,
    )
  }
}
