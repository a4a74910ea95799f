// A signer with its key in a local file: for development, and wherever a file is safe enough.

import type { Signer } from '@svc/core'
import { SignerKeyError } from '../format/errors.js'
import { ed25519, SEED_BYTES, type SigningKey, whenFastest } from './ed25519.js'
import { type OnWarning, pathOfKeyRef, readSeed } from './key-file.js'
import { keyIdOf } from './public-key.js'

interface LocalDevSignerOptions {
  /** Called for a key file that others may read; default `process.emitWarning`. */
  onWarning?: OnWarning
}

export class LocalDevSigner implements Signer {
  readonly keyId: string
  readonly publicKey: Uint8Array
  // Private fields do not show in inspection, JSON or a spread.
  #key: SigningKey
  readonly #seed: Uint8Array

  private constructor(seed: Uint8Array) {
    this.#seed = seed
    this.#key = ed25519().signingKey(seed)
    this.publicKey = this.#key.publicKey
    this.keyId = keyIdOf(this.publicKey)
    if (ed25519().name === 'node:crypto') {
      void whenFastest().then((best) => {
        this.#key = best.signingKey(seed)
      })
    }
  }

  /**
   * Reads the key at `file://<path>` synchronously.
   *
   * @throws {SignerKeyError} when there is no usable key there.
   */
  static fromKeyRef(keyRef: string, options: LocalDevSignerOptions = {}): LocalDevSigner {
    const warn = options.onWarning ?? ((message) => process.emitWarning(message, 'SvcSignerWarning'))
    return new LocalDevSigner(readSeed(pathOfKeyRef(keyRef), warn))
  }

  /** @throws {SignerKeyError} when the seed is not 32 bytes long. */
  static fromSeed(seed: Uint8Array): LocalDevSigner {
    if (seed.length !== SEED_BYTES) {
      throw new SignerKeyError('key_wrong_length', `an Ed25519 seed has 32 bytes, this one ${seed.length}`)
    }
    return new LocalDevSigner(new Uint8Array(seed))
  }

  sign(data: Uint8Array): Uint8Array {
    return this.#key.sign(data)
  }

  verify(data: Uint8Array, sig: Uint8Array): boolean {
    return ed25519().verify(this.publicKey, data, sig)
  }

  keyForThread(): Uint8Array {
    return new Uint8Array(this.#seed)
  }

  toJSON(): { keyId: string } {
    return { keyId: this.keyId }
  }
}
