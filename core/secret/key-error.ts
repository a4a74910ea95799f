// A key that is not available. The message is for the log: it names files and variables, never their content.
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

/** Whether `value` is a `KeyError`, of any copy of this package. */
export function isKeyError(value: unknown): value is KeyError {
  return hasBrand(value, 'KeyError')
}
