// The figures of this stage, for whoever shows them.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_escalations_opened_total: { kind: 'counter', help: 'Calls put to people.' },
  svc_escalations_approved_total: {
    kind: 'counter',
    help: 'Escalations approved: by votes, by their strategy, or by their time.',
  },
  svc_escalations_rejected_total: {
    kind: 'counter',
    help: 'Escalations rejected, by votes or by their time.',
  },
  svc_escalations_expired_total: {
    kind: 'counter',
    help: 'Of both, those that nobody decided in time.',
  },
  svc_escalations_used_total: { kind: 'counter', help: 'Approvals that let their call through.' },
  svc_escalation_store_failures_total: {
    kind: 'counter',
    help: 'Questions that the escalation store did not answer.',
  },
}
