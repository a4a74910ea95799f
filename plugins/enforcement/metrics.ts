// The metrics of this stage.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_escalations_opened_total: { kind: 'counter', help: 'Escalations opened.' },
  svc_escalations_approved_total: {
    kind: 'counter',
    help: 'Escalations approved, by votes, strategy or time-out.',
  },
  svc_escalations_rejected_total: {
    kind: 'counter',
    help: 'Escalations rejected, by votes or time-out.',
  },
  svc_escalations_expired_total: {
    kind: 'counter',
    help: 'Escalations decided by their time-out; also counted as approved or rejected.',
  },
  svc_escalations_used_total: { kind: 'counter', help: 'Approvals used to send a call.' },
  svc_escalation_store_failures_total: {
    kind: 'counter',
    help: 'Operations of the escalation store that failed.',
  },
}
