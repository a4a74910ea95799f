// Why a credential is not available: one message for the log, another for the caller, and no secret in either.

export class BrokerError extends Error {
  override readonly name = 'BrokerError'
  constructor(
    /** For the log: may name files and environment variables. */
    message: string,
    /** For the caller: without internals. */
    readonly publicMessage: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
