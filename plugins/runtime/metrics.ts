// Metrics of the remote runtime.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_runtime_evaluations_total: { kind: 'counter', help: 'Calls sent to the runtime for evaluation.' },
  svc_runtime_failures_total: { kind: 'counter', help: 'Evaluations without a valid decision.' },
  svc_runtime_retries_total: { kind: 'counter', help: 'Retried evaluation requests.' },
  svc_runtime_skipped_total: {
    kind: 'counter',
    help: 'Calls not evaluated because a circuit to the runtime was open.',
  },
  svc_runtime_circuit_open: {
    kind: 'gauge',
    help: '1 while the runtime cannot be connected to or fails for several callers, else 0.',
  },
}
