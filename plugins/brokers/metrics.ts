// What brokers count, for operators.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_broker_exchanges_total: { kind: 'counter', help: 'Token exchanges asked for.' },
  svc_broker_exchange_failures_total: { kind: 'counter', help: 'Token exchanges that failed.' },
  svc_broker_key_rests_total: {
    kind: 'counter',
    help: 'Vendor keys set aside after the upstream refused them.',
  },
}
