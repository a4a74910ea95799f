// The gateway's own metrics; each plugin lists those of its stage. docs/reference/metrics.md is generated from all.
import type { MetricEntry } from '@svc/core'

interface OwnMetric extends MetricEntry {
  readonly labels?: readonly string[]
}

export const ownMetrics = {
  svc_calls_total: {
    kind: 'counter',
    labels: ['server', 'decision', 'code'],
    help: 'Completed calls by server (unknown for a server that is not a target, other beyond 1,000 of them), decision (allow or deny) and error code (OK without one).',
  },
  svc_call_duration_seconds: {
    kind: 'histogram',
    labels: ['server'],
    help: 'Time from the arrival of a call to the end of its response, in seconds; without streams of notifications.',
  },
  svc_stage_wait_seconds: {
    kind: 'histogram',
    labels: ['stage'],
    help: 'Time that calls waited in a stage, without the stages inside it, or for the upstream, in seconds; waits in a stage below 0.1 ms are not counted.',
  },
  svc_calls_in_flight: { kind: 'gauge', help: 'Calls in flight, open streams included.' },
  svc_ready: { kind: 'gauge', help: '1 when the gateway can serve calls, like /readyz; else 0.' },
  svc_workers: { kind: 'gauge', help: 'Workers that listen, of a gateway that has several.' },
  svc_worker_restarts_total: {
    kind: 'counter',
    help: 'Workers that ended and were replaced; what one counted since the last scrape is lost.',
  },
  svc_policy_reloads_total: {
    kind: 'counter',
    labels: ['result'],
    help: 'Policy reloads by result: success, or refused, in which case the old policy stays in force.',
  },
  svc_budget_limit: {
    kind: 'gauge',
    labels: ['budget'],
    help: 'Bytes of a budget of the process: lines (of processes and event streams, in 2 ms), requests and messages (large ones in memory), lists (kept for clients of several servers).',
  },
  svc_budget_used: {
    kind: 'gauge',
    labels: ['budget', 'tenants'],
    help: 'Bytes of a budget that are in use, by the tenant (of lines: the server) that uses most (largest), and by all others.',
  },
  svc_budget_waiting: {
    kind: 'gauge',
    labels: ['budget'],
    help: 'Messages and lines that wait for their part of a budget.',
  },
  svc_budget_shortages_total: {
    kind: 'counter',
    labels: ['budget', 'server'],
    help: 'Times that a message or line had to wait for its part of a budget, or a list ended for another one, by the target if it is known.',
  },
  svc_telemetry_lost_total: {
    kind: 'counter',
    labels: ['signal'],
    help: 'What an OTLP receiver did not take, by signal: spans (traces), log records (logs), and exports of metrics; only with OpenTelemetry.',
  },
} as const satisfies Record<string, OwnMetric>

/** Calls and the shadow policy; those that its section or a runtime decided are not counted. */
export const shadowMetrics: Readonly<Record<string, MetricEntry>> = {
  svc_shadow_same_total: {
    kind: 'counter',
    help: 'Calls on which the shadow policy decides as the one in force.',
  },
  svc_shadow_different_total: {
    kind: 'counter',
    help: 'Calls on which the shadow policy decides otherwise.',
  },
  svc_shadow_skipped_total: {
    kind: 'counter',
    help: 'Calls that the shadow policy did not judge, as it has used its part of a core.',
  },
  svc_shadow_unknown_total: {
    kind: 'counter',
    help: 'Calls whose decision by the shadow policy rests on what it does not know, such as that of a runtime.',
  },
  svc_shadow_failed_total: { kind: 'counter', help: 'Calls on which the shadow policy failed.' },
}

// Metrics of requests and connections that became no call.
export const serverMetrics: Readonly<Record<string, MetricEntry>> = {
  svc_http_refusals_total: {
    kind: 'counter',
    help: 'Requests refused before they became calls: malformed, too slow, for another host, too many headers.',
  },
  svc_http_connections_closed_total: {
    kind: 'counter',
    help: 'Connections closed because there were too many, of all clients or of one address, or because the client read its responses too slowly or sent too many requests without waiting.',
  },
}

// The metrics of the admin listener.
export const adminMetrics: Readonly<Record<string, MetricEntry>> = {
  svc_admin_wrong_tokens_total: {
    kind: 'counter',
    help: 'Requests to the admin listener with a bearer token that is neither the admin token nor that of a user.',
  },
  svc_admin_guesses_refused_total: {
    kind: 'counter',
    help: 'Requests to the admin listener whose token was not compared, as too many of their address waited for a comparison.',
  },
}

// The metric of the store that all gateways share.
export const storeClockMetrics = {
  svc_store_clock_skew_seconds: {
    kind: 'gauge',
    help: 'Seconds by which the clock of this gateway is ahead of that of Redis; negative if it is behind.',
    isEmptyAtFirst: true,
  },
} as const satisfies Record<string, MetricEntry>

// The metrics of notices; docs/reference/metrics.md is generated from them.
export const noticeMetrics = {
  svc_notices_delivered_total: { kind: 'counter', help: 'Notices that a webhook has accepted.' },
  svc_notices_failed_total: { kind: 'counter', help: 'Attempts to deliver a notice that failed.' },
  svc_notices_dropped_total: {
    kind: 'counter',
    help: 'Notices given up: the queue was full, or no attempt succeeded in three days.',
  },
  svc_notices_pending: { kind: 'gauge', help: 'Notices that wait for their delivery.' },
} as const satisfies Record<string, MetricEntry>

// The metrics of targets that are commands.
export const stdioMetrics = {
  svc_stdio_server_failures_total: {
    kind: 'counter',
    help: 'Processes of targets that are commands which did not start, or exited without being stopped; the log has the reasons.',
  },
} as const satisfies Record<string, MetricEntry>
