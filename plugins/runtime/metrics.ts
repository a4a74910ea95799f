// How the remote runtime fares, in figures for operators.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_runtime_evaluations_total: {
    kind: 'counter',
    help: 'Calls about which the runtime was asked.',
  },
  svc_runtime_failures_total: { kind: 'counter', help: 'Evaluations that gave no decision.' },
  svc_runtime_retries_total: { kind: 'counter', help: 'Repeated tries of an evaluation.' },
  svc_runtime_skipped_total: {
    kind: 'counter',
    help: 'Calls about which nobody was asked, as the runtime had failed again and again.',
  },
  svc_runtime_circuit_open: { kind: 'gauge', help: '1 while the runtime is left alone; else 0.' },
}
