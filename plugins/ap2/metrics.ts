// The metrics of this stage.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_ap2_verified_total: { kind: 'counter', help: 'Calls whose mandates were verified.' },
  svc_ap2_findings_total: {
    kind: 'counter',
    help: 'Findings about mandates: missing, invalid, for other arguments, or used before.',
  },
}
