// Metrics of requests and connections that became no call.
import type { MetricEntry } from '@svc/core'

export const serverMetrics: Readonly<Record<string, MetricEntry>> = {
  svc_http_refusals_total: {
    kind: 'counter',
    help: 'Requests refused before they became calls: malformed, too slow, for another host, too many headers.',
  },
  svc_http_connections_closed_total: {
    kind: 'counter',
    help: 'Connections closed because there were too many, of all clients or of one address, or because the client read its answers too slowly or sent too many requests without waiting.',
  },
}
