// Why a credential cannot be had: one sentence for the log, another for the caller, and no secret in either.

export class BrokerFault extends Error {
  override readonly name = 'BrokerFault'
  constructor(
    /** For the operator: may name files and variables. */
    message: string,
    /** For the caller: tells nothing of the inside. */
    readonly told: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
