// Calls as a table, the newest first.
import type { JSX } from 'preact'
import type { CallRow } from '../../calls/call-row.js'
import { callHref, milliseconds } from '../kit/call-list.js'
import { CallDecisionBadge, callDecision } from '../kit/decision.js'
import { type Column, newestFirst, Table } from '../kit/table.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

interface CallTableProps {
  readonly rows: readonly CallRow[]
  isSealed(id: string): boolean
  isNew(id: string): boolean
}

export function CallTable({ rows, isSealed, isNew }: CallTableProps): JSX.Element {
  const columns: readonly Column<CallRow>[] = [
    ...common,
    { name: 'Seal', class: 'seal', cell: ({ id }) => <Seal isSealed={isSealed(id)} /> },
  ]
  return (
    <Table
      class="calls"
      caption="Calls, the newest first"
      columns={columns}
      rows={newestFirst(rows, ({ at }) => at)}
      keyOf={({ id }) => id}
      rowClass={(row) => `${callDecision(row).word}${isNew(row.id) ? ' new' : ''}`}
    />
  )
}

const common: readonly Column<CallRow>[] = [
  { name: 'Time', class: 'time', cell: ({ at }) => <Time at={at} show="time, or both" isCell /> },
  { name: 'Caller', class: 'caller', cell: (row) => <Caller {...row} /> },
  {
    name: 'Tool',
    class: 'tool mono',
    cell: ({ id, server, tool }) => (
      <a class="row" href={callHref(id)}>
        <Untrusted text={`${server}/${tool}`} cut={60} isCell />
      </a>
    ),
  },
  { name: 'Decision', class: 'badges', cell: (row) => <CallDecisionBadge call={row} /> },
  { name: 'Reason', class: 'reason', cell: (row) => <Reason {...row} /> },
  { name: 'ms', class: 'number', cell: ({ latency_ms: ms }) => milliseconds(ms) },
]

function Reason({ reasons, error }: CallRow): JSX.Element | null {
  const reason = reasons[0] ?? error
  if (reason === undefined) return null
  return (
    <>
      <Untrusted text={reason.replace(/^rule:/, '')} cut={60} isCell />
      {reasons.length > 1 && <span class="soft"> +{reasons.length - 1}</span>}
    </>
  )
}

function Seal({ isSealed }: { readonly isSealed: boolean }): JSX.Element {
  const text = isSealed ? 'sealed' : 'not sealed yet'
  return (
    <span title={text}>
      <span class={isSealed ? 'dot good' : 'dot open'} aria-hidden="true" />
      <span class="sr">{text}</span>
    </span>
  )
}

/** The agent, and the user for whom it acts. */
function Caller({ caller, agent }: Pick<CallRow, 'caller' | 'agent'>): JSX.Element {
  if (caller === '') return <span class="soft">no name</span>
  if (agent === undefined || agent === caller) return <Untrusted text={caller} cut={60} isCell />
  return (
    <>
      <Untrusted text={agent} cut={24} isCell />
      <span class="soft">
        {' '}
        for <Untrusted text={caller} cut={60} isCell />
      </span>
    </>
  )
}
