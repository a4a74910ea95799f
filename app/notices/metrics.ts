// The metrics of notices; docs/reference/metrics.md is generated from them.
import type { MetricEntry } from '@svc/core'

export const noticeMetrics = {
  svc_notices_delivered_total: { kind: 'counter', help: 'Notices that a webhook has accepted.' },
  svc_notices_failed_total: { kind: 'counter', help: 'Attempts to deliver a notice that failed.' },
  svc_notices_dropped_total: {
    kind: 'counter',
    help: 'Notices given up: the queue was full, or no attempt succeeded in three days.',
  },
  svc_notices_pending: { kind: 'gauge', help: 'Notices that wait for their delivery.' },
} as const satisfies Record<string, MetricEntry>
