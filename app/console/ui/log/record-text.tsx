// A record in one sentence.
import { callerIn, callerNameIn, isEventRecord } from '@svc/plugin-audit/browser'
import type { JSX } from 'preact'
import type { RecordJson } from '../../../log/log-json.js'
import { milliseconds } from '../kit/call-list.js'
import { callDecision } from '../kit/decision.js'
import { Untrusted } from '../kit/untrusted.js'

type StoredRecord = RecordJson['record']

/** A member of a record as text. */
export function recordMember(record: unknown, ...names: string[]): string | undefined {
  const value = names.reduce<unknown>(
    (of, name) =>
      typeof of === 'object' && of !== null && Object.hasOwn(of, name)
        ? (of as Record<string, unknown>)[name]
        : undefined,
    record,
  )
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined
}

/** The name in a reference to a server or tool. */
export function withoutVersion(reference = ''): string {
  return reference.replace(/(?<=.)@[^@]*$/, '')
}

export function recordCaller(record: StoredRecord): string {
  const person = callerNameIn(record['principal'])
  const agent = recordMember(record, 'agentRef') ?? recordMember(record, 'nodeId')
  if (isEventRecord(record)) return person ?? ''
  return agent === undefined || person === undefined ? callerIn(record) : `${agent} for ${person}`
}

/** The decision about a call and its outcome, by its record. */
export function decidedIn(record: StoredRecord) {
  const isDenied = recordMember(record, 'policy', 'decision') === 'deny'
  const findings = Array.isArray(record['findings']) ? record['findings'] : []
  const wouldDeny = findings.some((finding) => recordMember(finding, 'effect') === 'would_deny')
  return {
    decision: isDenied ? 'deny' : 'allow',
    ...(wouldDeny ? { would_deny: true } : {}),
    status: recordMember(record, 'status') === 'ok' ? 'ok' : 'error',
    error: recordMember(record, 'error'),
  } as const
}

export function RecordSentence({ record }: { readonly record: StoredRecord }): JSX.Element {
  const { word, tone } = callDecision(decidedIn(record))
  return (
    <>
      <Untrusted text={recordCaller(record)} cut={80} /> of{' '}
      <Untrusted text={recordMember(record, 'tenant') ?? ''} cut={80} /> called{' '}
      <code>
        <Untrusted text={recordMember(record, 'tool') ?? ''} cut={100} />
      </code>{' '}
      of <Untrusted text={recordMember(record, 'server') ?? ''} cut={100} />:{' '}
      <strong class={tone}>{word}</strong>
      {', '}
      <Untrusted text={recordMember(record, 'error') ?? recordMember(record, 'status') ?? ''} cut={80} />
      {`, ${milliseconds(Number(recordMember(record, 'latency_ms')))} ms.`}
    </>
  )
}
