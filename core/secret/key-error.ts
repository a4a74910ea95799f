// A key that cannot be had. The message is for the log: it names places, and never what was found there.

export type KeyErrorCode = 'key_ref' | 'key_missing' | 'key_unreadable' | 'key_malformed' | 'key_elsewhere'

export class KeyError extends Error {
  override readonly name = 'KeyError'
  constructor(
    readonly code: KeyErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
