// The error for refused JSON text, the same in every protocol.

export type JsonInputCode =
  | 'not_json'
  | 'byte_order_mark'
  | 'invalid_utf8'
  | 'duplicate_member'
  | 'number_not_exact'
  | 'number_out_of_bounds'
  | 'lone_surrogate'
  | 'too_deep'
  | 'too_many_containers'
  | 'too_many_names'

/** The message may be shown to the caller: of the input it contains at most a short name or number. */
export class JsonInputError extends Error {
  override readonly name = 'JsonInputError'

  /** @param offset the byte of the error, counted from 0 */
  constructor(
    readonly code: JsonInputCode,
    what: string,
    readonly offset: number,
  ) {
    super(`${what} at byte ${offset}`)
  }
}
