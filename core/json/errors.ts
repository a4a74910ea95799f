// The error of canonical JSON, with the path of the refused value.
import { jsonPath, shownPath } from './path.js'

export type CanonicalJsonCode =
  | 'undefined_value'
  | 'function_value'
  | 'symbol_value'
  | 'bigint_value'
  | 'non_finite_number'
  | 'lone_surrogate'
  | 'sparse_array'
  | 'unsupported_object'
  | 'cycle'
  | 'too_deep'
  | 'reserved_member'

const REASONS: Record<CanonicalJsonCode, string> = {
  undefined_value: 'undefined has no JSON form here',
  function_value: 'a function has no JSON form',
  symbol_value: 'a symbol has no JSON form',
  bigint_value: 'a BigInt has no exact JSON form',
  non_finite_number: 'NaN and Infinity have no JSON form',
  lone_surrogate: 'a string with a lone surrogate has no UTF-8 form',
  sparse_array: 'an array with holes has no exact JSON form',
  unsupported_object: 'a Map or Set has no JSON form',
  cycle: 'the value contains itself',
  too_deep: 'nested deeper than 512 levels',
  reserved_member: 'the member is added by the caller and must not be present',
}

/** A value without a form in RFC 8785. `path` is a JSONPath such as `$.args[3]["odd key"]`. */
export class CanonicalJsonError extends TypeError {
  readonly code: CanonicalJsonCode
  readonly path: string

  constructor(code: CanonicalJsonCode, segments: readonly (string | number)[] = []) {
    super(`cannot canonicalize ${shownPath(segments)}: ${REASONS[code]}`)
    this.name = 'CanonicalJsonError'
    this.code = code
    this.path = jsonPath(segments)
  }
}
