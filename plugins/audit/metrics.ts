// What the log's keepers count, for operators.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_audit_append_failures_total: {
    kind: 'counter',
    help: 'Records that could not be made durable.',
  },
  svc_audit_intent_failures_total: {
    kind: 'counter',
    help: 'Intents that could not be made durable before the call was to be sent.',
  },
  svc_audit_raw_payload_failures_total: {
    kind: 'counter',
    help: 'Raw payload records that could not be written.',
  },
  svc_audit_disk_free_bytes: { kind: 'gauge', help: 'Free space on the disk of the log, in bytes.' },
  svc_audit_disk_low_total: { kind: 'counter', help: 'Times that the disk of the log was found too full.' },
  svc_audit_upload_bytes_total: { kind: 'counter', help: 'Bytes of the log that were uploaded.' },
  svc_audit_upload_objects_total: { kind: 'counter', help: 'Objects that were uploaded.' },
  svc_audit_upload_failures_total: { kind: 'counter', help: 'Uploads that failed; they are tried again.' },
}
