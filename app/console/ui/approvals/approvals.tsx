// The escalations that wait, and the one that is selected.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { ErrorBanner, useLoaded, useWhenLostOrBack } from '../kit/error-banner.js'
import { useEvents } from '../kit/events.js'
import { useKeys } from '../kit/keys.js'
import { canNotify, isNotifying, turnNotifying } from '../kit/notify.js'
import { usePage } from '../kit/page.js'
import { ApprovalTabs } from './decided-list.js'
import { Detail } from './detail.js'
import {
  type ApprovalDetail,
  type ApprovalsData,
  chosenId,
  firstRows,
  loadDetail,
  loadWaiting,
} from './load.js'
import { PicksBar, usePicks } from './picks.js'
import { Together } from './together.js'
import { WaitingList } from './waiting-list.js'

export function Approvals({ initial }: { readonly initial: ApprovalsData }): JSX.Element {
  const { api, now } = usePage()
  const rows = useRef(firstRows)
  const list = useLoaded({ waiting: initial.waiting, more: initial.more }, now, () =>
    loadWaiting(api, rows.current),
  )
  const selection = useSelection(initial)
  const { detail } = selection
  const selected = detail?.escalation.id
  const { waiting, more } = list.data
  const picks = usePicks()
  const together = useTogether(picks.picked.length)
  useEvents({
    escalations({ changed }) {
      void list.reload()
      if (selected !== undefined && changed.includes(selected)) void selection.reload()
    },
    reopened: () => retry(),
  })
  // If nothing is selected, the first call that comes is selected.
  const [first] = waiting
  useEffect(() => {
    if (selected === undefined && first !== undefined) void selection.show(first.id)
  }, [selected, first])
  useKeys({
    Enter() {
      if (selected !== undefined) void selection.select(selected, true)
    },
  })
  useKeys({ v: together.open })
  const retry = () => void Promise.all([list.reload(), selection.reload()])
  return (
    <div class={selection.isChosen || together.isOpen ? 'approvals chosen' : 'approvals'}>
      <h1 class="sr">Approvals</h1>
      <section class="waiting-pane" aria-label="What waits">
        <p class="title" aria-hidden="true">
          Approvals
        </p>
        <ApprovalTabs current="Waiting" />
        <NotifySwitch />
        <ErrorBanner
          error={list.error}
          isToldElsewhere={selection.error !== undefined}
          since={list.at}
          onRetry={retry}
        >
          {waiting.length === 0 ? (
            <NothingListed />
          ) : (
            <WaitingList
              waiting={waiting}
              more={more}
              selected={together.isOpen ? undefined : selected}
              picks={picks}
              onSelect={(id, isOpened) => {
                together.leave()
                void selection.select(id, isOpened)
              }}
              onMore={() => {
                rows.current = 2 * waiting.length
                void list.reload()
              }}
            />
          )}
        </ErrorBanner>
        {!together.isOpen && <PicksBar picks={picks} onOpen={together.open} />}
      </section>
      {together.isOpen && (
        <section class="detail-pane" aria-label="The picked calls">
          <a
            class="back"
            href="/console/approvals"
            onClick={(event) => {
              event.preventDefault()
              together.close()
            }}
          >
            ← All that waits
          </a>
          <Together
            picked={picks.picked}
            onLeaveOut={picks.toggle}
            onVoted={list.reload}
            onClose={() => {
              picks.clear()
              together.close()
            }}
          />
        </section>
      )}
      {detail !== undefined && !together.isOpen && (
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
          <ErrorBanner error={selection.error} since={selection.at} onRetry={retry}>
            <Detail
              key={detail.escalation.id}
              detail={detail}
              isOpened={selection.isChosen}
              hasPicks={picks.picked.length > 0}
              onChange={selection.reload}
              onVoted={async () => {
                await Promise.all([list.reload(), selection.keep()])
              }}
            />
          </ErrorBanner>
        </section>
      )}
    </div>
  )
}

/** Whether the browser shows a notification once more calls wait, while the page is hidden. */
function NotifySwitch(): JSX.Element | null {
  const { isLive } = usePage()
  const [isOn, setOn] = useState(false)
  const [isRefused, setRefused] = useState(false)
  useEffect(() => setOn(isNotifying()), [])
  if (!isLive || (!canNotify() && !isRefused)) return null
  return (
    <p class="hint notify">
      <label>
        <input
          type="checkbox"
          checked={isOn}
          onChange={async ({ currentTarget: { checked } }) => {
            const isNowOn = await turnNotifying(checked)
            setOn(isNowOn)
            setRefused(checked && !isNowOn)
          }}
        />{' '}
        Notify me of calls that wait
      </label>
      {isRefused && ' (the browser does not allow it)'}
    </p>
  )
}

/** Who may decide nothing sees no calls that wait for others, so the page does not say that none does. */
function NothingListed(): JSX.Element {
  const { session } = usePage()
  const { vote_refusal: refusal, may } = session ?? {}
  if (refusal !== undefined && may?.read_outlines !== true)
    return (
      <div class="empty">
        <h2>You may decide nothing</h2>
        <p>{refusal}</p>
        <p>Calls that wait for others are not listed here.</p>
      </div>
    )
  return (
    <div class="empty">
      <h2>Nothing waits</h2>
      <p>A call that needs a decision appears here at once.</p>
    </div>
  )
}

/** Whether the picked calls are shown, in place of one. Back leads to the list. */
function useTogether(picked: number) {
  const [isWanted, setWanted] = useState(false)
  const leave = useCallback(() => setWanted(false), [])
  useEffect(() => {
    addEventListener('popstate', leave)
    return () => removeEventListener('popstate', leave)
  }, [leave])
  const isOpen = isWanted && picked > 0
  const open = () => {
    if (picked === 0 || isOpen) return
    history.pushState(null, '', location.href)
    setWanted(true)
    scrollTo(0, 0)
  }
  const close = () => {
    history.back()
    afterPaint(() => focus('.waiting [aria-current]'))
  }
  return { isOpen, open, leave, close }
}

interface Selection {
  readonly detail: ApprovalDetail | undefined
  readonly error: ApiRefusal | undefined
  readonly at: string
  /** Whether it has the URL, and on a phone the screen. */
  readonly isChosen: boolean
  /** Without a change of the URL. */
  show(id: string): Promise<void> | undefined
  /** `isOpened`: its page is wanted, not its row alone. */
  select(id: string, isOpened: boolean): Promise<void>
  leave(): void
  reload(): Promise<void>
  /** Loads it anew after a vote, and gives it the URL, so that it stays when others are first. */
  keep(): Promise<void>
}

/** The selected escalation, which is loaded when it is selected and when it changes. */
function useSelection(initial: ApprovalsData): Selection {
  const { api, now } = usePage()
  const [state, setState] = useState({ detail: initial.detail, at: new Date(now).toISOString() })
  const [isChosen, setChosen] = useState(initial.isChosen)
  const [error, setError] = useState<ApiRefusal | undefined>()
  const wanted = useRef(initial.detail?.escalation.id)
  const loading = useRef<Promise<void> | undefined>(undefined)
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
  const show = useCallback(
    (id: string) => {
      if (wanted.current !== id) {
        wanted.current = id
        loading.current = load(id).then(() => scrollTo(0, 0))
      }
      return loading.current
    },
    [load],
  )
  const select = useCallback(
    async (id: string, isOpened: boolean) => {
      if (isChosen) history.replaceState(null, '', urlOf(id))
      // Back leads from the page of a call to the list.
      else if (isOpened) history.pushState(null, '', urlOf(id))
      if (isOpened) setChosen(true)
      await show(id)
      if (isOpened) afterPaint(() => focus('#approval-title'))
    },
    [show, isChosen],
  )
  useEffect(() => {
    const move = () => {
      const id = chosenId({ path: location.pathname.slice('/console'.length) })
      setChosen(id !== undefined)
      if (id !== undefined) void show(id)
    }
    addEventListener('popstate', move)
    return () => removeEventListener('popstate', move)
  }, [show])
  const leave = useCallback(() => {
    setChosen(false)
    history.replaceState(null, '', '/console/approvals')
    afterPaint(() => focus('.waiting [aria-current]'))
  }, [])
  const reload = useCallback(async () => {
    if (wanted.current !== undefined) await load(wanted.current)
  }, [load])
  useWhenLostOrBack(reload)
  const keep = useCallback(async () => {
    if (wanted.current !== undefined) history.replaceState(null, '', urlOf(wanted.current))
    await reload()
    afterPaint(() => {
      if (document.activeElement !== document.body) return
      scrollTo(0, 0)
      focus('#approval-title')
    })
  }, [reload])
  return { ...state, error, isChosen, show, select, leave, reload, keep }
}

function urlOf(id: string): string {
  return `/console/approvals/${encodeURIComponent(id)}`
}

/** Once what was set is on the screen. */
function afterPaint(act: () => void): void {
  requestAnimationFrame(() => setTimeout(act))
}

function focus(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus({ preventScroll: true })
}
