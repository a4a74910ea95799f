// An error above data that was loaded before, which stays, greyed, with the time of its loading.
import type { ComponentChildren, JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from './api.js'
import { useConnection } from './events.js'
import { Time } from './time.js'

export interface Loaded<Data> {
  readonly data: Data
  /** The reason why the data is not newer. */
  readonly error: ApiRefusal | undefined
  /** ISO 8601: when the data was loaded. */
  readonly at: string
  reload(): Promise<void>
  /** Replaces the data by data from elsewhere. */
  set(change: (data: Data) => Data): void
}

/**
 * Keeps data that is loaded repeatedly, and when the connection to the gateway is lost or back: then data may be old without
 * a request that fails. If requests overlap, the last one counts.
 */
export function useLoaded<Data>(initial: Data, now: number, load: () => Promise<Data>): Loaded<Data> {
  const [state, setState] = useState({ data: initial, at: new Date(now).toISOString() })
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [latest, number] = [useRef(load), useRef(0)]
  latest.current = load
  const reload = useCallback(async () => {
    const mine = ++number.current
    const isFocused = document.activeElement !== document.body
    try {
      const data = await latest.current()
      if (mine !== number.current) return
      setState({ data, at: new Date().toISOString() })
      setError(undefined)
      if (isFocused) requestAnimationFrame(keepFocus)
    } catch (cause) {
      if (mine === number.current) setError(apiRefusalOf(cause))
    }
  }, [])
  const set = useCallback(
    (change: (data: Data) => Data) => setState((old) => ({ ...old, data: change(old.data) })),
    [],
  )
  useEffect(() => () => void ++number.current, [])
  useWhenLostOrBack(reload)
  return { ...state, error, reload, set }
}

/** Calls `act` when the connection is lost, and when it is open again. */
export function useWhenLostOrBack(act: () => Promise<void>): void {
  const connection = useConnection()
  const wasLost = useRef(false)
  useEffect(() => {
    const isBack = connection === 'open' && wasLost.current
    if (connection === 'lost' || isBack) void act()
    wasLost.current = connection === 'lost'
  }, [connection, act])
}

/** If the element with the focus is no longer there, the view has it, so that Tab goes on in it. */
function keepFocus(): void {
  if (document.activeElement === document.body)
    document.getElementById('main')?.focus({ preventScroll: true })
}

interface ErrorBannerProps {
  readonly error: ApiRefusal | undefined
  /** The time at which the data below was loaded. */
  readonly since?: string
  readonly onRetry?: () => void
  /** Whether another banner of the page has the same error, so that this one greys its data alone. */
  readonly isToldElsewhere?: boolean
  readonly children?: ComponentChildren
}

/** `children` show the data that was loaded before. */
export function ErrorBanner(props: ErrorBannerProps): JSX.Element {
  const { error, since, onRetry, isToldElsewhere = false, children } = props
  return (
    <>
      {error !== undefined && !isToldElsewhere && (
        <div class="banner bad" role="alert">
          <strong>{error.status === 401 ? 'You are signed out.' : error.message}</strong>
          {since !== undefined && (
            <span>
              What is shown is from <Time at={since} />.
            </span>
          )}
          {error.status === 401 ? (
            <a href="/console">Sign in</a>
          ) : (
            onRetry !== undefined && (
              <button type="button" onClick={onRetry}>
                Try again
              </button>
            )
          )}
        </div>
      )}
      <div class={error === undefined ? 'loaded' : 'loaded stale'}>{children}</div>
    </>
  )
}
