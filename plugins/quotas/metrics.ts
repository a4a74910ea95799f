// What the counting of calls counts of itself, for operators.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_quota_store_failures_total: { kind: 'counter', help: 'Questions that the quota store did not answer.' },
}
