// What the server counts of clients that get no call, for operators.
import type { MetricEntry } from '@svc/core'

export const serverMetrics: Readonly<Record<string, MetricEntry>> = {
  svc_http_refusals_total: {
    kind: 'counter',
    help: 'Requests refused before they could become calls: no HTTP, not in time, for another host, too many headers.',
  },
  svc_http_connections_closed_total: {
    kind: 'counter',
    help: 'Connections closed because the client did not take its answers, or did not wait for them.',
  },
}
