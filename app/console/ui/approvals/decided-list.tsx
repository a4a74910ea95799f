// The escalations that are decided, the newest first, found by words.
import type { JSX } from 'preact'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { type Column, Table } from '../kit/table.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { DECIDED, type DecidedData, loadDecided } from './load.js'
import { Names } from './names.js'

const pages = [
  ['/console/approvals', 'Waiting'],
  [`/console/approvals/${DECIDED}`, 'Decided'],
] as const

export function ApprovalTabs({ current }: { readonly current: 'Waiting' | 'Decided' }): JSX.Element {
  return (
    <nav class="tabs" aria-label="Approvals">
      {pages.map(([path, name]) => (
        <a key={name} href={path} aria-current={name === current ? 'page' : undefined}>
          {name}
        </a>
      ))}
    </nav>
  )
}

interface DecidedListProps {
  readonly initial: DecidedData
  readonly query: string
}

export function DecidedList({ initial, query }: DecidedListProps): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload } = useLoaded(initial, now, () => loadDecided(api, query))
  const { decided, next } = data
  const search = new URLSearchParams(query).get('search') ?? ''
  return (
    <section class="decided">
      <h1 class="title">Approvals</h1>
      <ApprovalTabs current="Decided" />
      <form class="search" aria-label="Search" action={`/console/approvals/${DECIDED}`}>
        <label>
          Caller, tool, text or reviewer
          <input name="search" defaultValue={search} maxLength={200} aria-keyshortcuts="/" />
        </label>
        <button type="submit">Search</button>
      </form>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        {decided.length === 0 ? (
          <p class="empty">{nothingFound(search, next)}</p>
        ) : (
          <Table
            class="decided-list"
            caption="Decided, those asked last first"
            columns={columns}
            rows={decided}
            keyOf={({ id }) => id}
          />
        )}
        {next !== undefined && (
          <p>
            <a href={`/console/approvals/${DECIDED}?${new URLSearchParams({ search, after: next })}`}>
              Older ones
            </a>
          </p>
        )}
        <p class="hint">Decisions are listed for seven days; the log has all of them.</p>
      </ErrorBanner>
    </section>
  )
}

function nothingFound(search: string, next: string | undefined): string {
  if (next !== undefined) return 'None as far as was searched.'
  return search === ''
    ? 'Nothing was decided in the last seven days.'
    : 'Nothing that was decided has these words.'
}

const columns: readonly Column<EscalationJson>[] = [
  { name: 'Asked', cell: ({ created_at: at }) => <Time at={at} show="day and time" isCell /> },
  {
    name: 'Tool',
    class: 'mono',
    cell: ({ id, server, tool }) => (
      <a class="row" href={`/console/approvals/${encodeURIComponent(id)}`}>
        <Untrusted text={`${server}/${tool}`} cut={60} isCell />
      </a>
    ),
  },
  { name: 'Caller', cell: (escalation) => <Names escalation={escalation} isCell /> },
  {
    name: 'Decision',
    cell: ({ status }) => <span class={status === 'approved' ? 'badge good' : 'badge bad'}>{status}</span>,
  },
  { name: 'By', cell: (escalation) => <By {...escalation} /> },
]

const others = {
  votes: 'votes',
  expiry: 'nobody, in time',
  strategy: 'the policy, at once',
  emergency: 'the caller, in an emergency',
} as const

function By({
  votes,
  decided_by: by = 'votes',
  created_at: asked,
  decided_at: at,
}: EscalationJson): JSX.Element {
  const reviewers = votes.map(({ reviewer }) => reviewer).join(', ')
  const after = at === undefined ? undefined : Date.parse(at) - Date.parse(asked)
  return (
    <>
      {by === 'votes' && reviewers !== '' ? <Untrusted text={reviewers} cut={80} isCell /> : others[by]}
      {by !== 'strategy' && after !== undefined && <span class="soft"> after {inWords(after)}</span>}
    </>
  )
}
