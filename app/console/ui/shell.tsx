// The frame of every page: rail, header, help.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageState, Theme } from '../api.js'
import type { StatusJson } from '../status-operation.js'
import { Copy } from './kit/copy.js'
import { useConnection, useEvents } from './kit/events.js'
import type { EventsConnection } from './kit/gateway-events.js'
import { ThemeIcon } from './kit/icons.js'
import { areKeysOff, focusFilter, stepRow, turnKeys, useKeys } from './kit/keys.js'
import { notifyOfWaiting, queueForNotices, showsNotices } from './kit/notify.js'
import { usePage } from './kit/page.js'
import { Time } from './kit/time.js'
import { Untrusted } from './kit/untrusted.js'
import { viewAt, views, waitingIn } from './views.js'

interface ShellProps {
  readonly state: PageState
  readonly children: ComponentChildren
}

export function Shell({ state, children }: ShellProps): JSX.Element {
  const { session, location } = state
  const [status, setStatus] = useState(state.status)
  // A client without a role may not watch.
  useEvents(state.status === undefined ? {} : { status: setStatus })
  const connection = useConnection()
  const isOld = connection !== 'open' && connection !== 'connecting'
  useWaitingCount(isOld ? undefined : status)
  const help = useRef<HTMLDialogElement>(null)
  const current = viewAt(location.path)
  useKeys({
    '?': () => help.current?.showModal(),
    '/': focusFilter,
    j: () => stepRow(1),
    k: () => stepRow(-1),
  })
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <nav class="rail" aria-label="Views">
        <a class="brand" href="/console" aria-label="svc console">
          <span class="mark">svc</span>
        </a>
        <ul>
          {views
            .filter((view) => session !== undefined && view.isFor(session))
            .map(({ id, title, Icon, count }) => {
              const waiting = status === undefined || isOld ? '' : (count?.(status) ?? '')
              return (
                <li key={id}>
                  <a href={`/console/${id}`} aria-current={id === current?.id ? 'page' : undefined}>
                    <Icon />
                    <span>{title}</span>
                    {waiting !== '' && (
                      <span class="count">
                        {waiting}
                        <span class="sr"> waiting</span>
                      </span>
                    )}
                  </a>
                </li>
              )
            })}
        </ul>
      </nav>
      <header class="top">
        {status !== undefined && <State status={status} isOld={isOld} />}
        <ConnectionState connection={connection} />
        <Account onHelp={() => help.current?.showModal()} />
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      <Help dialog={help} state={state} />
    </div>
  )
}

/** The number of calls that wait, as it is known: in the title of the page, and in a notification once it has risen. */
function useWaitingCount(status: StatusJson | undefined): void {
  const waiting = status === undefined ? '' : waitingIn(status)
  const last = useRef(status?.pending ?? 0)
  useEffect(queueForNotices, [])
  useEffect(() => {
    const title = document.title.replace(/^\(\d+\+?\) /, '')
    document.title = waiting === '' ? title : `(${waiting}) ${title}`
  }, [waiting])
  useEffect(() => {
    if (status === undefined) return
    const hasRisen = status.pending > last.current
    last.current = status.pending
    if (hasRisen && document.hidden && showsNotices()) notifyOfWaiting(waitingIn(status), status.gateway)
  }, [status])
}

const logStates = {
  ok: ['good', 'log writable'],
  warning: ['warn', 'log writable, with a warning'],
  not_writable: ['bad', 'log not writable'],
} as const

function State({
  status,
  isOld,
}: {
  readonly status: StatusJson
  /** Whether it may have changed since. */
  readonly isOld: boolean
}): JSX.Element {
  const { gateway, mode, policy_sha256: policy, log } = status
  const [level, text] = logStates[log.state]
  return (
    <ul class={isOld ? 'state stale' : 'state'}>
      <li class="gateway">
        <Untrusted text={gateway} cut={60} />
      </li>
      <li>
        <span class={mode === 'enforce' ? 'badge good' : 'badge warn'}>{mode}</span>
      </li>
      {policy !== null && (
        <li>
          <span class="label">policy</span>{' '}
          <Copy value={policy} label="the hash of the policy">
            {policy.slice(0, 8)}
          </Copy>
        </li>
      )}
      <li title={log.reason}>
        <span class={`dot ${level}`} aria-hidden="true" /> {text}
      </li>
    </ul>
  )
}

function ConnectionState({ connection }: { readonly connection: EventsConnection }): JSX.Element {
  return (
    <span class="connection" role="status">
      {connection === 'lost' && <span class="badge warn">reconnecting</span>}
      {(connection === 'ended' || connection === 'refused') && (
        <a class="badge bad" href="/console">
          {connection === 'ended' ? 'signed out' : 'access removed'}
        </a>
      )}
    </span>
  )
}

function Account({ onHelp }: { readonly onHelp: () => void }): JSX.Element {
  const { session, api } = usePage()
  const leave = async () => {
    await api.send('DELETE', '/api/session')
    location.assign('/console')
  }
  return (
    <div class="account">
      <span class="who">
        <Untrusted text={session?.name ?? ''} cut={40} />
      </span>
      <button
        type="button"
        class="quiet"
        onClick={switchTheme}
        title="Light or dark"
        aria-label="Light or dark"
      >
        <ThemeIcon />
      </button>
      <button type="button" class="quiet keys" onClick={onHelp} title="Keys (?)" aria-label="Keys">
        ?
      </button>
      <button type="button" class="quiet" onClick={() => void leave()}>
        Sign out
      </button>
    </div>
  )
}

/** The choice is in a cookie, so that the next page is rendered with it. */
function switchTheme(): void {
  const root = document.documentElement
  const isDark =
    (root.dataset['theme'] ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : '')) === 'dark'
  const theme: Theme = isDark ? 'light' : 'dark'
  root.dataset['theme'] = theme
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in every browser
  document.cookie = `svc-theme=${theme}; Path=/; Max-Age=31536000; SameSite=Strict`
}

const helpRows = [
  ['j', 'next row'],
  ['k', 'previous row'],
  ['Enter', 'open the row'],
  ['/', 'filter'],
  ['?', 'this list'],
  ['a', 'Approvals: approve, after a comment'],
  ['r', 'Approvals: reject, after a comment'],
  ['Ctrl+Enter', 'Approvals: send the vote'],
  ['x', 'Approvals: pick the call; X: all from the last one'],
  ['v', 'Approvals: vote on the picked calls together'],
  ['Space', 'Live: hold back new calls'],
] as const

interface HelpProps {
  readonly dialog: { readonly current: HTMLDialogElement | null }
  readonly state: PageState
}

function Help({ dialog, state: { session, times } }: HelpProps): JSX.Element {
  const [areOff, setOff] = useState(false)
  const [isStored, setStored] = useState(true)
  useEffect(() => setOff(areKeysOff()), [])
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl>
        {helpRows.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <p>
        <label>
          <input
            type="checkbox"
            checked={!areOff}
            onChange={({ currentTarget: { checked } }) => {
              setStored(turnKeys(checked))
              setOff(!checked)
            }}
          />{' '}
          Keys without Ctrl are on
        </label>
        {!isStored && ' (this choice ends when you leave the page: the browser does not store it)'}
      </p>
      {times !== undefined && (
        <p class="hint">
          The session ends at <Time at={new Date(times.endsAt).toISOString()} />, or after{' '}
          {times.idleMs / 60_000} minutes without activity.{' '}
          {session?.kind === 'user' &&
            'Your roles are those that the issuer gave you at the sign-in; sign in again if they have changed.'}
        </p>
      )}
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  )
}
