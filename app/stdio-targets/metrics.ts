// The metrics of servers over stdio; docs/reference/metrics.md is generated from them.
import type { MetricEntry } from '@svc/core'

export const stdioMetrics = {
  svc_stdio_server_failures_total: {
    kind: 'counter',
    help: 'Processes of targets that are commands which did not start, or exited without being stopped; the log has the reasons.',
  },
} as const satisfies Record<string, MetricEntry>
