// The metrics of this stage.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_quota_store_failures_total: { kind: 'counter', help: 'Operations of the quota store that failed.' },
}
