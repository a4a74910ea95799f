// A record in one sentence.

import { ANONYMOUS, callerNameIn } from '../../format/caller-name.js'
import { isEventRecord } from '../../format/evidence-summary.js'
import { element, untrusted } from './dom.js'

export type RecordMembers = Readonly<Record<string, unknown>>

/** The member of an object; undefined of anything else. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

export function sentenceOf(record: RecordMembers | undefined): (Node | string)[] {
  if (record === undefined) return ['A line that is not a record.']
  const { ts, tenant, server, tool, status, error, latency_ms: latency } = record
  const time = element('time', {}, untrusted(ts))
  const caller = callerOf(record)
  if (isEventRecord(record)) {
    return [
      time,
      ' — the gateway ',
      untrusted(server),
      ' recorded ',
      untrusted(tool),
      ...(caller ? [' by ', ...caller] : []),
      '.',
    ]
  }
  const isDenied = memberOf(record['policy'], 'decision') === 'deny'
  const outcome = isDenied
    ? ['was ', element('strong', {}, 'denied'), ' (', untrusted(error ?? 'no reason'), ')']
    : [
        'was allowed; ',
        ...outcomeOf(status, error),
        ` after ${typeof latency === 'number' ? latency : '?'} ms`,
      ]
  return [
    time,
    ' — ',
    ...(caller ?? [ANONYMOUS]),
    ' of tenant ',
    untrusted(tenant),
    ' called ',
    untrusted(tool),
    ' of ',
    untrusted(server),
    ': it ',
    ...outcome,
    '.',
  ]
}

function outcomeOf(status: unknown, error: unknown): (Node | string)[] {
  if (status === 'ok') return ['it succeeded']
  return ['it failed (', untrusted(error ?? 'error'), ')']
}

function callerOf({ principal, agentRef, nodeId }: RecordMembers): (Node | string)[] | undefined {
  const agent = agentRef ?? nodeId
  const person = callerNameIn(principal)
  if (typeof agent !== 'string') return person === undefined ? undefined : [untrusted(person)]
  return ['agent ', untrusted(agent), ...(person === undefined ? [] : [' for ', untrusted(person)])]
}
