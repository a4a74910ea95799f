// The escalations that wait, and the one that is selected.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useEvents } from '../kit/events.js'
import { useKeys } from '../kit/keys.js'
import { usePage } from '../kit/page.js'
import { Detail } from './detail.js'
import { type ApprovalDetail, type ApprovalsData, loadDetail, loadWaiting } from './load.js'
import { WaitingList } from './waiting-list.js'

export function Approvals({ initial }: { readonly initial: ApprovalsData }): JSX.Element {
  const { api, now } = usePage()
  const list = useLoaded({ waiting: initial.waiting, more: initial.more }, now, () => loadWaiting(api))
  const selection = useSelection(initial)
  const { detail } = selection
  const selected = detail?.escalation.id
  const { waiting, more } = list.data
  useEvents({
    escalations({ changed }) {
      void list.reload()
      if (selected !== undefined && changed.includes(selected)) void selection.reload()
    },
  })
  // What comes when nothing is selected is selected.
  const [first] = waiting
  useEffect(() => {
    if (selected === undefined && first !== undefined) selection.select(first.id, false)
  }, [selected, first])
  const step = (by: number) => {
    const at = waiting.findIndex(({ id }) => id === selected)
    const next = waiting[at < 0 ? 0 : Math.min(waiting.length - 1, Math.max(0, at + by))]
    if (next !== undefined) selection.select(next.id, false)
  }
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    Enter: () => selected !== undefined && selection.select(selected, true),
  })
  return (
    <div class={selection.isChosen ? 'approvals chosen' : 'approvals'}>
      <h1 class="sr">Approvals</h1>
      <section class="waiting-pane" aria-label="What waits">
        <p class="title" aria-hidden="true">
          Approvals
        </p>
        <ErrorBanner error={list.error} since={list.at} onRetry={() => void list.reload()}>
          {waiting.length === 0 ? (
            <div class="empty">
              <h2>Nothing waits</h2>
              <p>A call that needs a decision appears here at once.</p>
            </div>
          ) : (
            <WaitingList waiting={waiting} more={more} selected={selected} onSelect={selection.select} />
          )}
        </ErrorBanner>
      </section>
      {detail !== undefined && (
        <section class="detail-pane" aria-label="The call">
          <a
            class="back"
            href="/console/approvals"
            onClick={(event) => {
              event.preventDefault()
              selection.leave()
            }}
          >
            ← All that waits
          </a>
          <ErrorBanner error={selection.error} since={selection.at} onRetry={() => void selection.reload()}>
            <Detail
              key={detail.escalation.id}
              detail={detail}
              onChange={selection.reload}
              onVoted={selection.keep}
            />
          </ErrorBanner>
        </section>
      )}
    </div>
  )
}

interface Selection {
  readonly detail: ApprovalDetail | undefined
  readonly error: ApiRefusal | undefined
  readonly at: string
  /** Whether it has the URL, and on a phone the screen. */
  readonly isChosen: boolean
  select(id: string, isChosen: boolean): void
  leave(): void
  reload(): Promise<void>
  /** Loads it anew, and gives it the URL, so that it stays when others are first. */
  keep(): Promise<void>
}

/** The selected escalation, which is loaded when it is selected and when it changes. */
function useSelection(initial: ApprovalsData): Selection {
  const { api, now } = usePage()
  const [state, setState] = useState({ detail: initial.detail, at: new Date(now).toISOString() })
  const [isChosen, setChosen] = useState(initial.isChosen)
  const [error, setError] = useState<ApiRefusal | undefined>()
  const wanted = useRef(initial.detail?.escalation.id)
  const load = useCallback(
    async (id: string) => {
      try {
        const detail = await loadDetail(api, id)
        if (wanted.current !== id) return
        setState({ detail, at: new Date().toISOString() })
        setError(undefined)
      } catch (cause) {
        if (wanted.current === id) setError(apiRefusalOf(cause))
      }
    },
    [api],
  )
  const select = useCallback(
    (id: string, chosen: boolean) => {
      if (chosen) setChosen(true)
      history.replaceState(null, '', urlOf(id))
      if (wanted.current === id) return
      wanted.current = id
      void load(id)
    },
    [load],
  )
  const leave = useCallback(() => {
    setChosen(false)
    history.replaceState(null, '', '/console/approvals')
  }, [])
  const reload = useCallback(async () => {
    if (wanted.current !== undefined) await load(wanted.current)
  }, [load])
  const keep = useCallback(async () => {
    if (wanted.current !== undefined) history.replaceState(null, '', urlOf(wanted.current))
    await reload()
  }, [reload])
  return { ...state, error, isChosen, select, leave, reload, keep }
}

function urlOf(id: string): string {
  return `/console/approvals/${encodeURIComponent(id)}`
}
