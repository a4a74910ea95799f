// Hooks by which components listen to the events of the gateway.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EventListeners, EventsConnection } from './gateway-events.js'
import { usePage } from './page.js'

/** Listens while the component is there. Its functions may differ from one rendering to the next. */
export function useEvents(listener: EventListeners, after?: string): void {
  const { events } = usePage()
  const latest = useRef(listener)
  latest.current = listener
  const [calls, sealed, escalations, status, reopened] = [
    listener.calls,
    listener.sealed,
    listener.escalations,
    listener.status,
    listener.reopened,
  ].map((one) => one !== undefined)
  useEffect(() => {
    const some: EventListeners = {
      ...(calls ? { calls: (event) => latest.current.calls?.(event) } : {}),
      ...(sealed ? { sealed: (event) => latest.current.sealed?.(event) } : {}),
      ...(escalations ? { escalations: (event) => latest.current.escalations?.(event) } : {}),
      ...(status ? { status: (event) => latest.current.status?.(event) } : {}),
      ...(reopened ? { reopened: () => latest.current.reopened?.() } : {}),
    }
    return Object.keys(some).length === 0 ? undefined : events?.listen(some, after)
  }, [events, calls, sealed, escalations, status, reopened])
}

export function useConnection(): EventsConnection {
  const { events } = usePage()
  const [state, setState] = useState<EventsConnection>('connecting')
  useEffect(() => {
    if (events === undefined) return
    setState(events.state)
    return events.watch(setState)
  }, [events])
  return state
}
