// The clock of the store that all gateways share, compared with this one: limits and keys follow that of the store, and tokens
// and records this one, so that a gateway whose clock is wrong has to be seen.
import { type Clock, clockSkew, describeSkew, type Logger, type Meter } from '@svc/core'
import type { storeClockMetrics } from '../telemetry/metrics/metric-table.js'

/** The difference that tokens and mandates tolerate by default, in milliseconds. */
const MAX_MS = 5_000
const METRIC: keyof typeof storeClockMetrics = 'svc_store_clock_skew_seconds'

interface StoreClockOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly meter?: Meter | undefined
}

export class StoreClock {
  #options: StoreClockOptions
  #skewMs = 0

  constructor(options: StoreClockOptions) {
    this.#options = options
  }

  /** `time` is that of the store, in milliseconds since the epoch; it was asked for at `asked`, in monotonic milliseconds. */
  compare(time: number, asked: number): void {
    const { clock, logger, meter } = this.#options
    const now = clock.now()
    const was = this.warning()
    this.#skewMs = clockSkew({ from: time, to: time + 1 }, now - (clock.monotonic() - asked), now)
    meter?.gauge?.(METRIC, this.#skewMs / 1000)
    const warning = this.warning()
    if (warning !== undefined && was === undefined) logger.warn({ skewMs: Math.round(this.#skewMs) }, warning)
  }

  warning(): string | undefined {
    return Math.abs(this.#skewMs) > MAX_MS ? describeSkew('Redis', this.#skewMs) : undefined
  }
}
