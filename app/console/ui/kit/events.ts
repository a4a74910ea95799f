// What the gateway sends as it happens: one connection for the page, shared by all who listen. It is closed while nobody
// sees the page, and what was missed comes when somebody does.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallsEvent, EndEvent, EscalationsEvent, SealedEvent } from '../../events/operation.js'
import type { StatusJson } from '../../status-operation.js'
import { usePage } from './page.js'

export interface EventListeners {
  calls?(event: CallsEvent): void
  sealed?(event: SealedEvent): void
  escalations?(event: EscalationsEvent): void
  status?(event: StatusJson): void
}

/** `ended`: the client may no longer watch. */
export type EventsConnection = 'connecting' | 'open' | 'lost' | 'ended'

/** Time after which the connection of a hidden page is closed, and a refused one is tried again, in milliseconds. */
const HIDDEN_MS = 30_000
const AGAIN_MS = 3_000

export class GatewayEvents {
  #listeners = new Map<EventListeners, string | undefined>()
  #watchers = new Set<(state: EventsConnection) => void>()
  #source: EventSource | undefined
  #hasCalls = false
  #lastId: string | undefined
  #state: EventsConnection = 'connecting'
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor() {
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.#timer)
      if (document.hidden) this.#timer = setTimeout(() => this.#close(), HIDDEN_MS)
      else this.#adjust()
    })
  }

  get state(): EventsConnection {
    return this.#state
  }

  /** `after`: the id of the newest call that the listener has. Returns a function that ends it. */
  listen(listener: EventListeners, after?: string): () => void {
    this.#listeners.set(listener, after)
    this.#lastId ??= after
    this.#adjust()
    return () => {
      this.#listeners.delete(listener)
      this.#adjust()
    }
  }

  watch(watcher: (state: EventsConnection) => void): () => void {
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  #adjust(): void {
    const hasCalls = [...this.#listeners.keys()].some(({ calls }) => calls !== undefined)
    if (this.#listeners.size === 0) this.#close()
    else if (this.#state !== 'ended' && (this.#source === undefined || this.#hasCalls !== hasCalls)) {
      this.#open(hasCalls)
    }
  }

  #open(hasCalls: boolean): void {
    this.#close()
    this.#hasCalls = hasCalls
    const after = this.#lastId === undefined ? '' : `&after=${encodeURIComponent(this.#lastId)}`
    const source = new EventSource(`/api/events?calls=${hasCalls ? `all${after}` : 'none'}`)
    this.#source = source
    source.onopen = () => this.#become('open')
    source.onerror = () => {
      this.#become('lost')
      // Otherwise the browser tries again by itself.
      if (source.readyState === EventSource.CLOSED) this.#again()
    }
    const on = <T>(name: string, use: (data: T) => void) =>
      source.addEventListener(name, (event) => {
        if (event.lastEventId !== '') this.#lastId = event.lastEventId
        use(JSON.parse(event.data))
      })
    on<CallsEvent>('calls', (event) => this.#tell((one) => one.calls?.(event)))
    on<SealedEvent>('sealed', (event) => this.#tell((one) => one.sealed?.(event)))
    on<EscalationsEvent>('escalations', (event) => this.#tell((one) => one.escalations?.(event)))
    on<StatusJson>('status', (event) => this.#tell((one) => one.status?.(event)))
    on<EndEvent>('end', ({ error }) => void this.#end(error))
  }

  async #end(error: string): Promise<void> {
    this.#close()
    const isPassing = error === 'RATE_LIMITED' || error === 'STORE_UNAVAILABLE'
    if (isPassing || (error === 'UNAUTHENTICATED' && (await isSignedIn()))) {
      this.#become('lost')
      this.#again()
    } else this.#become('ended')
  }

  #tell(say: (listener: EventListeners) => void): void {
    for (const one of this.#listeners.keys()) say(one)
  }

  #again(): void {
    this.#close()
    this.#timer = setTimeout(() => this.#adjust(), AGAIN_MS)
  }

  #close(): void {
    clearTimeout(this.#timer)
    this.#source?.close()
    this.#source = undefined
  }

  #become(state: EventsConnection): void {
    if (this.#state === state) return
    this.#state = state
    for (const watcher of this.#watchers) watcher(state)
  }
}

/** The cookie is renewed while its user is active; that with which the connection began is over then. */
async function isSignedIn(): Promise<boolean> {
  try {
    return (await fetch('/api/session')).status !== 401
  } catch {
    // The gateway is away, and may come back.
    return true
  }
}

/** Listens while the component is there. Its functions may differ from one rendering to the next. */
export function useEvents(listener: EventListeners, after?: string): void {
  const { events } = usePage()
  const latest = useRef(listener)
  latest.current = listener
  const [calls, sealed, escalations, status] = [
    listener.calls,
    listener.sealed,
    listener.escalations,
    listener.status,
  ].map((one) => one !== undefined)
  useEffect(() => {
    const some: EventListeners = {
      ...(calls ? { calls: (event) => latest.current.calls?.(event) } : {}),
      ...(sealed ? { sealed: (event) => latest.current.sealed?.(event) } : {}),
      ...(escalations ? { escalations: (event) => latest.current.escalations?.(event) } : {}),
      ...(status ? { status: (event) => latest.current.status?.(event) } : {}),
    }
    return Object.keys(some).length === 0 ? undefined : events?.listen(some, after)
  }, [events, calls, sealed, escalations, status])
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
