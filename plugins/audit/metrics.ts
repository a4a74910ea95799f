// Metrics of the audit log.
import type { MetricEntry } from '@svc/core'

export const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_audit_append_failures_total: {
    kind: 'counter',
    help: 'Records that could not be made durable.',
  },
  svc_audit_append_duration_seconds: {
    kind: 'histogram',
    help: 'Time from the end of a call until its record was durable, in seconds.',
  },
  svc_audit_intent_failures_total: {
    kind: 'counter',
    help: 'Intents that could not be made durable before their call.',
  },
  svc_audit_raw_payload_failures_total: {
    kind: 'counter',
    help: 'Raw payload records that could not be written.',
  },
  svc_audit_agent_runs_unnamed_total: {
    kind: 'counter',
    help: 'Records without the agent run that the call named, because its tenant had named too many new ones.',
  },
  svc_audit_queue_bytes: { kind: 'gauge', help: 'Bytes of accepted records that are not durable yet.' },
  svc_audit_seal_lag_seconds: {
    kind: 'gauge',
    help: 'Time since all records were sealed; 0 if another process seals this log, or none does.',
  },
  svc_audit_disk_free_bytes: {
    kind: 'gauge',
    help: "Free space on the log's disk, in bytes.",
    isEmptyAtFirst: true,
  },
  svc_audit_disk_low_total: {
    kind: 'counter',
    help: "Times that free space on the log's disk fell below the minimum.",
  },
  svc_audit_seal_failures_total: { kind: 'counter', help: 'Failed attempts to seal new records.' },
  svc_audit_cosign_failures_total: {
    kind: 'counter',
    help: 'Requests for a cosignature that a witness did not grant.',
  },
  svc_audit_upload_pending_bytes: { kind: 'gauge', help: 'Bytes of the log that are not uploaded yet.' },
  svc_audit_upload_oldest_pending_seconds: {
    kind: 'gauge',
    help: 'How long the oldest of them wait for their upload.',
  },
  svc_audit_upload_last_success_timestamp_seconds: {
    kind: 'gauge',
    help: 'Time of the last object that this process uploaded, in seconds since 1970.',
    isEmptyAtFirst: true,
  },
  svc_audit_upload_bytes_total: { kind: 'counter', help: 'Uploaded bytes of the log.' },
  svc_audit_upload_objects_total: { kind: 'counter', help: 'Uploaded objects.' },
  svc_audit_upload_failures_total: { kind: 'counter', help: 'Failed upload attempts.' },
}
