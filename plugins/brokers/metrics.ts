// The metrics of brokers.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_broker_exchanges_total: { kind: 'counter', help: 'Token exchanges requested.' },
  svc_broker_exchange_failures_total: { kind: 'counter', help: 'Token exchanges that failed.' },
  svc_broker_key_cooldowns_total: {
    kind: 'counter',
    help: 'Cooldowns of pool keys that the upstream refused.',
  },
}
