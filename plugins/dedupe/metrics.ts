// What becomes of duplicates, in figures for operators.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_dedupe_replays_total: { kind: 'counter', help: 'Calls answered with what was kept of an earlier one.' },
  svc_dedupe_refusals_total: {
    kind: 'counter',
    help: 'Calls refused for their key: duplicates, unknown outcomes, keys of other requests.',
  },
  svc_dedupe_store_failures_total: {
    kind: 'counter',
    help: 'Questions that the store of idempotency keys did not answer.',
  },
}
