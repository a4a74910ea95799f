// Some calls in few columns, the newest first.
import type { JSX } from 'preact'
import type { CallRow } from '../../calls/call-row.js'
import { CallDecisionBadge } from './decision.js'
import { type Column, newestFirst, Table } from './table.js'
import { Time } from './time.js'
import { Untrusted } from './untrusted.js'

interface CallListProps {
  readonly caption: string
  readonly calls: readonly CallRow[]
  /** The text that names a call, and is the link to its page. */
  readonly name: 'tool' | 'caller' | 'server and tool'
}

export function CallList({ caption, calls, name }: CallListProps): JSX.Element {
  const columns: readonly Column<CallRow>[] = [
    { name: 'Time', class: 'time', cell: ({ at }) => <Time at={at} show="time, or day" isCell /> },
    {
      name: name === 'caller' ? 'Caller' : 'Tool',
      class: name === 'caller' ? 'name' : 'name mono',
      cell: (call) => (
        <>
          <a href={callHref(call.id)}>
            <Untrusted text={nameIn(call, name)} cut={60} isCell />
          </a>
          {call.kept !== undefined && (
            <small>
              <Untrusted text={keptText(call.kept)} cut={120} isCell />
            </small>
          )}
        </>
      ),
    },
    { name: 'Decision', class: 'badges', cell: (call) => <CallDecisionBadge call={call} /> },
    { name: 'ms', class: 'number', cell: ({ latency_ms: ms }) => milliseconds(ms) },
  ]
  const rows = newestFirst(calls, ({ at }) => at)
  return <Table class="call-list" caption={caption} columns={columns} rows={rows} keyOf={({ id }) => id} />
}

function nameIn({ caller, server, tool }: CallRow, name: CallListProps['name']): string {
  if (name === 'server and tool') return `${server}/${tool}`
  return name === 'tool' ? tool : caller
}

/** `amount 240`. */
function keptText(kept: NonNullable<CallRow['kept']>): string {
  return Object.entries(kept)
    .map(([path, value]) => `${path.replace(/^args\./, '')} ${value}`)
    .join(', ')
}

/** The page of a call; `id` is that of its row. */
export function callHref(id: string): string {
  return `/console/live/${encodeURIComponent(id.replace(':', '-'))}`
}

/** A time in milliseconds, as precise as is read. */
export function milliseconds(value: number): string {
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString('en')
}
