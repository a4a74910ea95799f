// The error for patterns that cannot be compared.

/** The search cannot tell: the fold of a character depends on its neighbours, or there are too many states. */
export class NotComparableError extends Error {
  override readonly name = 'NotComparableError'
}
