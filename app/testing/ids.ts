import type { Ids } from '@svc/core'

/** Ids that count up, so that a test can name the one it expects. */
export class FakeIds implements Ids {
  #traces = 0
  #spans = 0

  /** `000…001`, `000…002`, …: 32 hex digits. */
  traceId(): string {
    return (++this.#traces).toString(16).padStart(32, '0')
  }

  /** `000…001`, `000…002`, …: 16 hex digits. */
  spanId(): string {
    return (++this.#spans).toString(16).padStart(16, '0')
  }
}
