// The metrics of this stage.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_dedupe_replays_total: {
    kind: 'counter',
    help: 'Calls answered with the stored answer of an earlier one.',
  },
  svc_dedupe_refusals_total: {
    kind: 'counter',
    help: 'Calls refused for their key: duplicates, unknown outcomes, keys of other requests.',
  },
  svc_dedupe_store_failures_total: {
    kind: 'counter',
    help: 'Operations of the dedupe store that failed.',
  },
}
