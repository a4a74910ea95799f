// Records, the newest first. A row opens the record, where it is verified.
import type { JSX } from 'preact'
import type { RecordJson, RecordsJson } from '../../../log/log-json.js'
import { milliseconds } from '../kit/call-list.js'
import { CallDecisionBadge } from '../kit/decision.js'
import { type Column, newestFirst, Table } from '../kit/table.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { filterQuery, recordKindOf, recordKinds } from './load.js'
import { decidedIn, recordCaller, recordMember, withoutVersion } from './record-text.js'

interface RecordTableProps {
  readonly records: RecordsJson
  readonly query: string
}

const kindNames = { calls: 'Calls', events: 'Events of the gateway', all: 'All' } as const

export function RecordTable({ records: { records, next }, query }: RecordTableProps): JSX.Element {
  return (
    <>
      <nav class="log-kinds" aria-label="Records">
        {recordKinds.map((kind) => (
          <a
            key={kind}
            href={`/console/log?${filterQuery(query, { show: kind })}`}
            aria-current={kind === recordKindOf(query) ? 'page' : undefined}
          >
            {kindNames[kind]}
          </a>
        ))}
      </nav>
      {records.length === 0 ? (
        <p class="empty">{next === null ? 'No record matches.' : 'No record matches as far as was read.'}</p>
      ) : (
        <Table
          class="log-records"
          caption="Records, the newest first"
          columns={columns}
          rows={newestFirst(records, ({ record }) => recordMember(record, 'ts') ?? '')}
          keyOf={({ leaf, record }) => `${leaf} ${recordMember(record, 'seq') ?? ''}`}
        />
      )}
      <p class="hint">As the gateway says: a record is proven on its own page, which its leaf links to.</p>
      {next !== null && (
        <p>
          <a href={`/console/log?${filterQuery(query, { show: recordKindOf(query), before: String(next) })}`}>
            Older records
          </a>
        </p>
      )}
    </>
  )
}

const columns: readonly Column<RecordJson>[] = [
  {
    name: 'Time',
    cell: ({ record }) => <Time at={recordMember(record, 'ts') ?? ''} show="day and time" isCell />,
  },
  { name: 'Caller', cell: ({ record }) => <Caller name={recordCaller(record)} /> },
  {
    name: 'Tool',
    class: 'mono',
    cell: ({ record }) => <Untrusted text={nameOfCalled(record)} cut={60} isCell />,
  },
  {
    name: 'Decision',
    cell: ({ record }) => <Decision record={record} />,
  },
  {
    name: 'Outcome',
    cell: ({ record }) => (
      <Untrusted text={recordMember(record, 'error') ?? recordMember(record, 'status') ?? ''} cut={60} />
    ),
  },
  {
    name: 'ms',
    class: 'number',
    cell: ({ record }) => (isEvent(record) ? '' : milliseconds(Number(recordMember(record, 'latency_ms')))),
  },
  { name: 'Leaf', cell: ({ leaf }) => <Leaf leaf={leaf} /> },
]

function Caller({ name }: { readonly name: string }): JSX.Element {
  return name === '' ? <span class="soft">no name</span> : <Untrusted text={name} cut={40} isCell />
}

function Decision({ record }: Pick<RecordJson, 'record'>): JSX.Element {
  if (isEvent(record)) return <span class="badge">event</span>
  return <CallDecisionBadge call={decidedIn(record)} />
}

function isEvent({ server, gateway, tool }: RecordJson['record']): boolean {
  return server === gateway && String(tool).includes('/')
}

/** `server/tool`; of an event its own name. Versions are in the record. */
function nameOfCalled(record: RecordJson['record']): string {
  const [server = '', tool = ''] = ['server', 'tool'].map((name) =>
    withoutVersion(recordMember(record, name)),
  )
  return isEvent(record) ? tool : `${server}/${tool}`
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
