// Why a call could not be evaluated, in one sentence without any secret or word of the runtime's answer.

export class EvaluationFault extends Error {
  override readonly name = 'EvaluationFault'
  constructor(
    message: string,
    /**
     * `down`: no answer could be had, as for any other call. `unusable`: there was one, and it decides nothing.
     * `resting`: nobody was asked.
     */
    readonly kind: 'down' | 'unusable' | 'resting',
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
