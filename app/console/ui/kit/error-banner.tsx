// An error above data that was loaded before, which stays, greyed, with the time of its loading.
import type { ComponentChildren, JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from './api.js'
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

/** Keeps data that is loaded repeatedly. If requests overlap, the last one counts. */
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
  return { ...state, error, reload, set }
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
  readonly children?: ComponentChildren
}

/** `children` show the data that was loaded before. */
export function ErrorBanner({ error, since, onRetry, children }: ErrorBannerProps): JSX.Element {
  return (
    <>
      {error !== undefined && (
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
