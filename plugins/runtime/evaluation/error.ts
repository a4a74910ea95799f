// Why a call could not be evaluated. Messages contain no secret and no text of the runtime's response.

export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
  constructor(
    message: string,
    /**
     * `unreachable`: no connection, which no call's input can cause. `unavailable`: no usable HTTP response, such as a
     * time-out or status 500. `invalid`: a response that holds no valid decision. `circuit_open`: no request was sent.
     */
    readonly kind: 'unreachable' | 'unavailable' | 'invalid' | 'circuit_open',
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
