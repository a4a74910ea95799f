/** A mistake in the text of an expression. `at` is the index of the character where it is. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError'
  readonly at: number

  constructor(message: string, range: { readonly start: number } | undefined, options?: ErrorOptions) {
    super(message, options)
    this.at = range?.start ?? 0
  }
}
