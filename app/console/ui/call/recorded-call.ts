// The call in a record, read in the browser from the bytes that it verifies.
import { callerIn } from '@svc/plugin-audit/browser'
import type { CallRow } from '../../calls/call-row.js'
import type { CallJson } from '../../calls/show-call.js'
import { decidedIn, recordMember, withoutVersion } from '../log/record-text.js'

export type CallOfRecord = Omit<CallRow, 'id' | 'kind' | 'kept'>

const sentValues = ['no', 'yes', 'unknown'] as const

export function callIn(record: CallJson['record']): CallOfRecord {
  const member = (name: string) => recordMember(record, name)
  const { error, ...decided } = decidedIn(record)
  const [agent, escalation] = [member('agentRef'), member('escalation_id')]
  const sent = sentValues.find((value) => value === member('sent'))
  const findings = Array.isArray(record['findings']) ? record['findings'] : []
  return {
    ...decided,
    at: member('ts') ?? '',
    tenant: member('tenant') ?? '',
    caller: callerIn(record),
    server: withoutVersion(member('server')),
    tool: withoutVersion(member('tool')),
    reasons: findings.flatMap((finding) => recordMember(finding, 'reason') ?? []),
    latency_ms: Number(member('latency_ms')),
    trace_id: member('trace_id') ?? '',
    span_id: member('span_id') ?? '',
    ...(agent === undefined ? {} : { agent }),
    ...(sent === undefined ? {} : { sent }),
    ...(error === undefined ? {} : { error }),
    ...(escalation === undefined ? {} : { escalation_id: escalation }),
  }
}
