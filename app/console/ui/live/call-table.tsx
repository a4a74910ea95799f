// Calls as a table, the newest first.
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { CallRow } from '../../calls/call-row.js'
import { callHref } from '../call/call-href.js'
import { CallDecisionBadge, callDecision } from '../kit/decision.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

interface CallTableProps {
  readonly rows: readonly CallRow[]
  readonly selected: string | undefined
  isSealed(id: string): boolean
  isNew(id: string): boolean
}

export function CallTable({ rows, selected, isSealed, isNew }: CallTableProps): JSX.Element {
  const body = useRef<HTMLTableSectionElement>(null)
  useEffect(() => {
    body.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <table class="calls">
      <caption class="sr">Calls, the newest first</caption>
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col">Caller</th>
          <th scope="col">Tool</th>
          <th scope="col">Decision</th>
          <th scope="col">Reason</th>
          <th scope="col" class="number">
            ms
          </th>
          <th scope="col">Seal</th>
        </tr>
      </thead>
      <tbody ref={body}>
        {rows.map((row) => (
          <Row
            key={row.id}
            row={row}
            isSelected={row.id === selected}
            isSealed={isSealed(row.id)}
            isNew={isNew(row.id)}
          />
        ))}
      </tbody>
    </table>
  )
}

interface RowProps {
  readonly row: CallRow
  readonly isSelected: boolean
  readonly isSealed: boolean
  readonly isNew: boolean
}

function Row({ row, isSelected, isSealed, isNew }: RowProps): JSX.Element {
  const { id, at, caller, agent, server, tool, reasons, error, latency_ms: ms } = row
  const reason = reasons[0] ?? error
  return (
    <tr class={`${callDecision(row).word}${isNew ? ' new' : ''}`} aria-selected={isSelected}>
      <td>
        <Time at={at} />
      </td>
      <td>
        <Caller caller={caller} agent={agent} />
      </td>
      <td class="mono">
        <a href={callHref(id)}>
          <Untrusted text={`${server}/${tool}`} cut={60} />
        </a>
      </td>
      <td>
        <CallDecisionBadge call={row} />
      </td>
      <td class="reason">
        {reason !== undefined && <Untrusted text={reason.replace(/^rule:/, '')} cut={48} />}
        {reasons.length > 1 && <span class="soft"> +{reasons.length - 1}</span>}
      </td>
      <td class="number">{ms < 10 ? ms.toFixed(1) : Math.round(ms).toLocaleString('en')}</td>
      <td class="seal" title={isSealed ? 'sealed' : 'not sealed yet'}>
        <span class={isSealed ? 'dot good' : 'dot open'} aria-hidden="true" />
        <span class="sr">{isSealed ? 'sealed' : 'not sealed yet'}</span>
      </td>
    </tr>
  )
}

/** The agent, and for whom it acts. */
function Caller({
  caller,
  agent,
}: {
  readonly caller: string
  readonly agent: string | undefined
}): JSX.Element {
  if (agent === undefined || agent === caller)
    return caller === '' ? <span class="soft">no name</span> : <Untrusted text={caller} cut={36} />
  return (
    <>
      <Untrusted text={agent} cut={24} />
      {caller !== '' && (
        <span class="soft">
          {' '}
          for <Untrusted text={caller} cut={30} />
        </span>
      )}
    </>
  )
}
