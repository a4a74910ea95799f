// A key that cannot be had. The message is for the log: it names places, and never what was found there.
import { brand, hasBrand } from '../call/contract.js'

export type KeyErrorCode = 'key_ref' | 'key_missing' | 'key_unreadable' | 'key_malformed' | 'key_elsewhere'

export class KeyError extends Error {
  readonly [brand] = 'KeyError'
  override readonly name = 'KeyError'
  constructor(
    readonly code: KeyErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Whether `value` is a `KeyError`, of whatever copy of this package. */
export function isKeyError(value: unknown): value is KeyError {
  return hasBrand(value, 'KeyError')
}
