// Records, the newest first. A row opens the record, where it is verified.
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { RecordJson, RecordsJson } from '../../../log/log-json.js'
import { useKeys } from '../kit/keys.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { filterQuery } from './load.js'
import { recordCaller, recordMember } from './record-text.js'

interface RecordTableProps {
  readonly records: RecordsJson
  readonly query: string
}

export function RecordTable({ records: { records, next }, query }: RecordTableProps): JSX.Element {
  const [selected, select] = useState(-1)
  const body = useRef<HTMLTableSectionElement>(null)
  const move = (by: number) => select((at) => Math.max(0, Math.min(records.length - 1, at + by)))
  const open = () => {
    const leaf = records[selected]?.leaf
    if (leaf !== undefined && leaf !== null) location.assign(`/console/log/${leaf}`)
  }
  useKeys({ j: () => move(1), k: () => move(-1), Enter: open })
  useEffect(() => body.current?.children[selected]?.scrollIntoView({ block: 'nearest' }), [selected])
  if (records.length === 0 && next === null) return <p class="empty">No record matches.</p>
  return (
    <>
      <table class="log-records">
        <caption class="sr">Records, the newest first</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Caller</th>
            <th scope="col">Tool</th>
            <th scope="col">Decision</th>
            <th scope="col">Outcome</th>
            <th scope="col" class="number">
              ms
            </th>
            <th scope="col">Leaf</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {records.map((one, at) => (
            <Row key={keyOf(one)} one={one} isSelected={at === selected} />
          ))}
        </tbody>
      </table>
      {next !== null && (
        <p>
          <a href={`/console/log?${filterQuery(query, { before: String(next) })}`}>Older records</a>
        </p>
      )}
    </>
  )
}

function keyOf({ leaf, record }: RecordJson): string {
  return `${leaf} ${recordMember(record, 'seq') ?? ''}`
}

function Row({ one, isSelected }: { readonly one: RecordJson; readonly isSelected: boolean }): JSX.Element {
  const { leaf, record } = one
  const isDenied = recordMember(record, 'policy', 'decision') === 'deny'
  const caller = recordCaller(record)
  return (
    <tr aria-selected={isSelected}>
      <td>
        <Time at={recordMember(record, 'ts') ?? ''} show="day and time" />
      </td>
      <td>{caller === '' ? <span class="soft">no name</span> : <Untrusted text={caller} cut={40} />}</td>
      <td class="mono">
        <Untrusted text={recordMember(record, 'tool') ?? ''} cut={60} />
      </td>
      <td>
        <span class={`badge ${isDenied ? 'bad' : 'good'}`}>{isDenied ? 'denied' : 'allowed'}</span>
      </td>
      <td>
        <Untrusted text={recordMember(record, 'error') ?? recordMember(record, 'status') ?? ''} cut={60} />
      </td>
      <td class="number">{recordMember(record, 'latency_ms')}</td>
      <td>
        {leaf === null ? (
          <span class="soft">not sealed yet</span>
        ) : (
          <a href={`/console/log/${leaf}`} aria-label={`Verify the record at leaf ${leaf}`}>
            {leaf}
          </a>
        )}
      </td>
    </tr>
  )
}
