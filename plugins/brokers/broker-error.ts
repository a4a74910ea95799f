// The error of a credential that is not available, with a message for the log and one for the caller.
export class BrokerError extends Error {
  override readonly name = 'BrokerError'
  constructor(
    /** The message for the log; may name files and environment variables. */
    message: string,
    /** The message for the caller; without internals. */
    readonly publicMessage: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
