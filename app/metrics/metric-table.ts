// The metrics that the gateway itself has; each plugin names those of its stage. docs/reference/metrics.md is made from
// them all.
import type { MetricEntry } from '@svc/core'

interface OwnMetric extends Omit<MetricEntry, 'kind'> {
  readonly kind: MetricEntry['kind'] | 'histogram'
  readonly labels?: readonly string[]
}

export const ownMetrics = {
  svc_calls_total: {
    kind: 'counter',
    labels: ['server', 'decision', 'code'],
    help: 'Calls that ended: the server (unknown for one that no target names), the decision (allow or deny), the error code (OK without one).',
  },
  svc_call_duration_seconds: {
    kind: 'histogram',
    labels: ['server'],
    help: 'Time from the arrival of a call to the end of its answer, in seconds; streams that only listen are left out.',
  },
  svc_calls_in_flight: { kind: 'gauge', help: 'Calls under way, open streams included.' },
  svc_ready: { kind: 'gauge', help: '1 when the gateway can serve calls, as /readyz says; else 0.' },
  svc_policy_reloads_total: {
    kind: 'counter',
    labels: ['result'],
    help: 'Policy reloads by result: success, or refused, in which case the old policy stays in force.',
  },
} as const satisfies Record<string, OwnMetric>
