// A log that unidentified callers cannot fill: only a few errors a second have a line of their own.
import type { Clock, Logger } from '@svc/core'

const MAX_PER_SECOND = 10

/** Warnings and errors beyond the limit are counted in the next line; other levels pass as they are. */
export class LimitedLogger implements Logger {
  readonly debug: Logger['debug']
  readonly info: Logger['info']
  readonly #logger: Logger
  readonly #clock: Pick<Clock, 'monotonic'>
  #second = -1
  #lines = 0
  #suppressed = 0

  constructor(logger: Logger, clock: Pick<Clock, 'monotonic'>) {
    this.#logger = logger
    this.#clock = clock
    this.debug = (fields, message) => logger.debug(fields, message)
    this.info = (fields, message) => logger.info(fields, message)
  }

  warn(fields: object, message: string): void {
    const admitted = this.#admitted(fields)
    if (admitted !== undefined) this.#logger.warn(admitted, message)
  }

  error(fields: object, message: string): void {
    const admitted = this.#admitted(fields)
    if (admitted !== undefined) this.#logger.error(admitted, message)
  }

  #admitted(fields: object): object | undefined {
    const second = Math.floor(this.#clock.monotonic() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#lines = 0
    }
    if (this.#lines >= MAX_PER_SECOND) {
      this.#suppressed++
      return undefined
    }
    this.#lines++
    const suppressed = this.#suppressed
    this.#suppressed = 0
    return suppressed === 0 ? fields : { ...fields, suppressed_lines: suppressed }
  }
}
