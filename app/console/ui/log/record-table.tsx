// Records, the newest first. A row opens the record, where it is verified.
import type { JSX } from 'preact'
import type { RecordJson, RecordsJson } from '../../../log/log-json.js'
import { type Column, Table, useRowKeys } from '../kit/table.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { filterQuery } from './load.js'
import { recordCaller, recordMember } from './record-text.js'

interface RecordTableProps {
  readonly records: RecordsJson
  readonly query: string
}

export function RecordTable({ records: { records, next }, query }: RecordTableProps): JSX.Element {
  const body = useRowKeys<HTMLTableSectionElement>()
  if (records.length === 0 && next === null) return <p class="empty">No record matches.</p>
  return (
    <>
      <Table
        class="log-records"
        caption="Records, the newest first"
        columns={columns}
        rows={records}
        keyOf={({ leaf, record }) => `${leaf} ${recordMember(record, 'seq') ?? ''}`}
        bodyRef={body}
      />
      {next !== null && (
        <p>
          <a href={`/console/log?${filterQuery(query, { before: String(next) })}`}>Older records</a>
        </p>
      )}
    </>
  )
}

const columns: readonly Column<RecordJson>[] = [
  {
    name: 'Time',
    cell: ({ record }) => <Time at={recordMember(record, 'ts') ?? ''} show="day and time" />,
  },
  { name: 'Caller', cell: ({ record }) => <Caller name={recordCaller(record)} /> },
  {
    name: 'Tool',
    class: 'mono',
    cell: ({ record }) => <Untrusted text={recordMember(record, 'tool') ?? ''} cut={60} />,
  },
  {
    name: 'Decision',
    cell: ({ record }) => <Decision isDenied={recordMember(record, 'policy', 'decision') === 'deny'} />,
  },
  {
    name: 'Outcome',
    cell: ({ record }) => (
      <Untrusted text={recordMember(record, 'error') ?? recordMember(record, 'status') ?? ''} cut={60} />
    ),
  },
  { name: 'ms', class: 'number', cell: ({ record }) => recordMember(record, 'latency_ms') },
  { name: 'Leaf', cell: ({ leaf }) => <Leaf leaf={leaf} /> },
]

function Caller({ name }: { readonly name: string }): JSX.Element {
  return name === '' ? <span class="soft">no name</span> : <Untrusted text={name} cut={40} />
}

function Decision({ isDenied }: { readonly isDenied: boolean }): JSX.Element {
  return <span class={`badge ${isDenied ? 'bad' : 'good'}`}>{isDenied ? 'denied' : 'allowed'}</span>
}

function Leaf({ leaf }: { readonly leaf: number | null }): JSX.Element {
  return leaf === null ? (
    <span class="soft">not sealed yet</span>
  ) : (
    <a class="row" href={`/console/log/${leaf}`} aria-label={`Verify the record at leaf ${leaf}`}>
      {leaf}
    </a>
  )
}
