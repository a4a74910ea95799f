// The facts about its page that every component may read.
import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import type { Location, PageState } from '../../api.js'
import type { Api } from './api.js'
import type { GatewayEvents } from './gateway-events.js'

export interface PageContext
  extends Pick<PageState, 'session' | 'now' | 'login' | 'servedFor' | 'witnessKeys'> {
  readonly api: Api
  /** Undefined on the server. */
  readonly events: GatewayEvents | undefined
  /** False on the server and while the page is hydrated, so that both render the same. */
  readonly isLive: boolean
}

export const Page = createContext<PageContext | undefined>(undefined)

export function usePage(): PageContext {
  const page = useContext(Page)
  if (page === undefined) throw new Error('a component is outside of the page')
  return page
}

/**
 * False until `of` has been the same for `ms` milliseconds, so that a click or a held key does not hit what has only just
 * appeared; undefined never settles.
 */
export function useSettled(of: string | undefined, ms: number): boolean {
  const [settled, setSettled] = useState<string | undefined>()
  useEffect(() => {
    if (of === undefined) return
    const timer = setTimeout(() => setSettled(of), ms)
    return () => {
      clearTimeout(timer)
      setSettled(undefined)
    }
  }, [of, ms])
  return of !== undefined && settled === of
}

/** The time in milliseconds, by the clock of the gateway; it proceeds by the second. */
export function useNow(): number {
  const { now: atStart } = usePage()
  const [now, setNow] = useState(atStart)
  useEffect(() => {
    const clock = gatewayClock(atStart)
    const tick = () => setNow(clock())
    tick()
    const timer = setInterval(tick, 1000)
    return () => clearInterval(timer)
  }, [atStart])
  return now
}

/** The clock of the gateway, which was at `atStart` when it rendered the page. */
export function gatewayClock(atStart: number): () => number {
  const start = loadedAfter()
  return () => atStart + performance.now() - start
}

/** Milliseconds from the page's start to its response: the gateway's clock was read then. */
function loadedAfter(): number {
  const [entry] = performance.getEntriesByType('navigation')
  return entry instanceof PerformanceNavigationTiming ? entry.responseStart : 0
}

export type { Location }
