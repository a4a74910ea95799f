// An error over what was loaded before, which stays, greyed, with the time at which it was true.
import type { ComponentChildren, JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from './api.js'
import { Time } from './time.js'

export interface Loaded<Data> {
  readonly data: Data
  /** Why the data is not newer. */
  readonly error: ApiRefusal | undefined
  /** ISO 8601: when the data was loaded. */
  readonly at: string
  reload(): Promise<void>
  /** Puts data in place that came in another way. */
  set(change: (data: Data) => Data): void
}

/** Keeps data that is loaded again and again. Of requests that overlap, the last one counts. */
export function useLoaded<Data>(initial: Data, now: number, load: () => Promise<Data>): Loaded<Data> {
  const [state, setState] = useState({ data: initial, at: new Date(now).toISOString() })
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [latest, number] = [useRef(load), useRef(0)]
  latest.current = load
  const reload = useCallback(async () => {
    const mine = ++number.current
    try {
      const data = await latest.current()
      if (mine !== number.current) return
      setState({ data, at: new Date().toISOString() })
      setError(undefined)
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

interface ErrorBannerProps {
  readonly error: ApiRefusal | undefined
  /** When what is below was loaded. */
  readonly since?: string
  readonly onRetry?: () => void
  readonly children?: ComponentChildren
}

/** `children` are what was loaded before. */
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
