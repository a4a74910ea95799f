// Calls as they happen.
import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { CallRow } from '../../calls/call-row.js'
import type { CallsJson } from '../../calls/operations.js'
import { callHref, milliseconds } from '../kit/call-list.js'
import { Copy } from '../kit/copy.js'
import { CallDecisionBadge, callDecision } from '../kit/decision.js'
import { useKeys } from '../kit/keys.js'
import { usePage } from '../kit/page.js'
import { type Column, newestFirst, Table } from '../kit/table.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { useCallStream } from './call-stream.js'
import { loadCalls } from './load.js'

const SHOWN = 200

interface LiveProps {
  readonly initial: CallsJson
  readonly query: string
}

export function Live({ initial, query }: LiveProps): JSX.Element {
  const { api } = usePage()
  const [filter, setFilter] = useState(() => callFilterOf(query))
  const matches = useMemo(() => compileCallFilter(filter), [filter])
  const stream = useCallStream(initial.calls, matches, async () => (await loadCalls(api)).calls)
  const { rows: all, held, connection, togglePause } = stream
  const rows = all.filter(matches).slice(0, SHOWN)
  useKeys({ ' ': togglePause })
  const change = (next: CallFilter) => {
    setFilter(next)
    history.replaceState(null, '', `/console/live${callFilterQuery(next)}`)
  }
  const isLost = connection !== 'open' && connection !== 'connecting'
  return (
    <section class="live">
      <header class="live-bar">
        <h1 class="title">Live</h1>
        <input
          type="search"
          aria-label="Filter"
          aria-keyshortcuts="/"
          placeholder="Filter, such as refund caller:agent-7"
          value={filter.text}
          onInput={({ currentTarget }) => change({ ...filter, text: currentTarget.value })}
          onKeyDown={({ key, currentTarget }) => key === 'Escape' && currentTarget.blur()}
        />
        <select
          aria-label="Decision"
          value={filter.decision}
          onChange={({ currentTarget }) => change({ ...filter, decision: currentTarget.value })}
        >
          <option value="">every decision</option>
          {decisionWords.map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </select>
        <button type="button" class={held === undefined ? '' : 'primary'} onClick={togglePause}>
          {held === undefined ? 'Pause' : `Resume: ${held.toLocaleString('en')} new`} <kbd>Space</kbd>
        </button>
        <span class="live-state" role="status">
          <StreamState {...stream} />
        </span>
      </header>
      {all.length === 0 ? (
        <FirstCall firstCall={initial.first_call} />
      ) : (
        <div class={isLost ? 'stale' : ''}>
          <CallTable rows={rows} isSealed={stream.isSealed} isNew={stream.isNew} />
          {rows.length === 0 && (
            <p class="empty">None of the newest {all.length.toLocaleString('en')} calls matches.</p>
          )}
          <p class="hint">As the gateway says: a call is proven on its own page.</p>
          {rows.length === SHOWN && (
            <p class="hint">
              The newest {SHOWN} that match. <a href="/console/log">Log</a> has all.
            </p>
          )}
        </div>
      )}
    </section>
  )
}

type StreamStateProps = Pick<ReturnType<typeof useCallStream>, 'connection' | 'backfilled' | 'oneIn' | 'rows'>

function StreamState({
  connection,
  backfilled,
  oneIn,
  rows: [newest],
}: StreamStateProps): JSX.Element | null {
  // The header says that it reconnects.
  if (connection === 'lost') {
    return newest === undefined ? null : (
      <span class="hint">
        the newest call is from <Time at={newest.at} show="time, or both" />
      </span>
    )
  }
  return (
    <>
      {backfilled !== undefined && (
        <span class="badge good">connected again; {backfilled.toLocaleString('en')} backfilled</span>
      )}
      {oneIn > 1 && <span class="badge warn">showing 1 in {oneIn.toLocaleString('en')}</span>}
    </>
  )
}

const firstCallHints = {
  listed_tool: 'Make a first one, of a tool that the server lists:',
  mcp_client:
    'The server speaks MCP: give a client this URL. With mcp+ before the URL of its target, curl calls its tools too.',
  unknown_tool:
    'No server lists its tools to the gateway. Make a first one, with the name of a tool for TOOL:',
} as const

function FirstCall({ firstCall }: { readonly firstCall: CallsJson['first_call'] }): JSX.Element {
  const token = firstCall?.needs_token === true ? ` \\\n  -H "authorization: Bearer $TOKEN"` : ''
  return (
    <div class="empty">
      <h2>No calls yet</h2>
      <p>
        A call appears here as soon as it is recorded.
        {firstCall !== undefined && ` ${firstCallHints[firstCall.by]}`}
      </p>
      {firstCall?.by === 'mcp_client' && <Copy label="the URL" value={firstCall.url} />}
      {firstCall !== undefined && firstCall.by !== 'mcp_client' && (
        <Copy
          label="the command"
          value={`curl -s '${firstCall.url}' \\\n  -H 'content-type: application/json'${token} -d '{}'`}
        />
      )}
    </div>
  )
}

/** The filter of the shown calls: words of a text, and a decision; both are in the URL. */
interface CallFilter {
  /** Words, each anywhere in a call, or `caller:name` for one column. */
  readonly text: string
  /** Empty for all. */
  readonly decision: string
}

const decisionWords = ['denied', 'would deny', 'waits', 'failed', 'allowed'] as const

const columns: Readonly<Record<string, (row: CallRow) => string>> = {
  caller: ({ caller, agent = '' }) => `${caller} ${agent}`,
  tool: ({ server, tool }) => `${server}/${tool}`,
  tenant: ({ tenant }) => tenant,
  reason: ({ reasons, error = '' }) => `${reasons.join(' ')} ${error}`,
  trace: ({ trace_id: traceId }) => traceId,
}

function callFilterOf(query: string): CallFilter {
  const given = new URLSearchParams(query)
  const decision = given.get('decision') ?? ''
  const isKnown = decisionWords.some((word) => word === decision)
  return { text: given.get('q') ?? '', decision: isKnown ? decision : '' }
}

/** Empty, or with its question mark. */
function callFilterQuery({ text, decision }: CallFilter): string {
  const query = new URLSearchParams({
    ...(text.trim() === '' ? {} : { q: text.trim() }),
    ...(decision === '' ? {} : { decision }),
  }).toString()
  return query === '' ? '' : `?${query}`
}

function compileCallFilter({ text, decision }: CallFilter): (row: CallRow) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map(compileWord)
  return (row) =>
    (decision === '' || callDecision(row).word === decision) && words.every((matches) => matches(row))
}

function compileWord(word: string): (row: CallRow) => boolean {
  const [, name = '', value = ''] = /^(\w+):(.+)$/.exec(word) ?? []
  const column = Object.hasOwn(columns, name) ? columns[name] : undefined
  if (column !== undefined) return (row) => column(row).toLowerCase().includes(value)
  return (row) => Object.values(columns).some((one) => one(row).toLowerCase().includes(word))
}

interface CallTableProps {
  readonly rows: readonly CallRow[]
  isSealed(id: string): boolean
  isNew(id: string): boolean
}

/** Calls as a table, the newest first. */
function CallTable({ rows, isSealed, isNew }: CallTableProps): JSX.Element {
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

/** Rows in the page; others come back as the filter is narrowed. */
