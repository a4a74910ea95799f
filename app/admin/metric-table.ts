// Every figure of the gateway, by name: what it means. Those of stages are shown from the start, at 0, and
// docs/reference/metrics.md is made from these tables.

export interface MetricEntry {
  readonly kind: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels?: readonly string[]
}

/** What the gateway itself counts. */
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
    help: 'Reloads of the policy: taken (up), or refused while the old one stays in force.',
  },
} as const satisfies Record<string, MetricEntry>

interface StageMetric extends MetricEntry {
  readonly kind: 'counter' | 'gauge'
}

/** What stages count and level through `Meter`. */
export const stageMetrics: Readonly<Record<string, StageMetric>> = {
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
  svc_quota_store_failures_total: { kind: 'counter', help: 'Questions that the quota store did not answer.' },
  svc_dedupe_replays_total: { kind: 'counter', help: 'Calls answered with what was kept of an earlier one.' },
  svc_dedupe_refusals_total: { kind: 'counter', help: 'Calls refused as duplicates of another.' },
  svc_dedupe_store_failures_total: {
    kind: 'counter',
    help: 'Questions that the store of idempotency keys did not answer.',
  },
  svc_broker_exchanges_total: { kind: 'counter', help: 'Token exchanges asked for.' },
  svc_broker_exchange_failures_total: { kind: 'counter', help: 'Token exchanges that failed.' },
  svc_broker_key_rests_total: {
    kind: 'counter',
    help: 'Vendor keys set aside after the upstream refused them.',
  },
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
