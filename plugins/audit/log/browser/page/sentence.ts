// A record in one sentence.

import { visibleInLine } from '@svc/core/json/portable'
import { ANONYMOUS, callerNameIn } from '../../format/caller-name.js'
import { isEventRecord } from '../../format/evidence-summary.js'

// Builds elements from text alone: nothing of a record is ever parsed as HTML.

type Child = Node | string

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string>>,
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

/** The element of the page with this id. */
export function part(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element ${id}`)
  return found
}

const LONGEST = 200

/** A value that a caller or a server chose. */
export function untrusted(value: unknown): HTMLElement {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'none')
  const shown = visibleInLine(text.slice(0, LONGEST))
  const made = element('code', { dir: 'ltr' }, shown)
  if (text.length > LONGEST) made.append(element('em', {}, ` … (${text.length} characters)`))
  return made
}

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
