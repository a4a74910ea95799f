// One error for JSON text that is refused, so that every protocol answers with the same code and words.

export type JsonInputCode =
  | 'not_json'
  | 'byte_order_mark'
  | 'invalid_utf8'
  | 'duplicate_member'
  | 'number_not_exact'
  | 'lone_surrogate'
  | 'too_deep'

/** The message may be shown to the caller: it holds no more of the input than a short name or number. */
export class JsonInputError extends Error {
  override readonly name = 'JsonInputError'

  /** @param offset the byte at which the fault was found, counted from 0 */
  constructor(
    readonly code: JsonInputCode,
    what: string,
    readonly offset: number,
  ) {
    super(`${what} at byte ${offset}`)
  }
}
