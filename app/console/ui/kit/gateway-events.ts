// The events of the gateway, over one connection for the page that all components share. It is closed while the page is
// hidden, and missed events are fetched when the page is shown again.
import type { SessionJson } from '../../../admin/session.js'
import type { CallsEvent, EndEvent, EscalationsEvent, SealedEvent } from '../../events/event-schemas.js'
import type { StatusJson } from '../../status-operation.js'
import { showsNotices } from './notify.js'

export interface EventListeners {
  calls?(event: CallsEvent): void
  sealed?(event: SealedEvent): void
  escalations?(event: EscalationsEvent): void
  status?(event: StatusJson): void
  /** The connection is there again: changes of escalations meanwhile are not sent. */
  reopened?(): void
}

/**
 * `paused`: the page is hidden. `ended`: the session is over. `refused`: it goes on, and its client may no longer watch.
 */
export type EventsConnection = 'connecting' | 'open' | 'paused' | 'lost' | 'ended' | 'refused'

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
  #wasOpen = false
  /** Changes when the connection is closed or opened. */
  #generation = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor() {
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.#timer)
      if (!document.hidden) this.#adjust()
      else if (!showsNotices()) this.#timer = setTimeout(() => this.#pause(), HIDDEN_MS)
    })
  }

  get state(): EventsConnection {
    return this.#state
  }

  get #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'refused'
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
    else if (!this.#isOver && (this.#source === undefined || this.#hasCalls !== hasCalls)) {
      this.#open(hasCalls)
    }
  }

  #open(hasCalls: boolean): void {
    this.#close()
    this.#hasCalls = hasCalls
    const after = this.#lastId === undefined ? '' : `&after=${encodeURIComponent(this.#lastId)}`
    const source = new EventSource(`/api/events?calls=${hasCalls ? `all${after}` : 'none'}`)
    this.#source = source
    let isFirst = true
    source.onopen = () => {
      isFirst = true
      this.#become('open')
    }
    source.onerror = () => {
      this.#become('lost')
      // The stream was refused. Otherwise the browser tries again by itself.
      if (source.readyState === EventSource.CLOSED) void this.#end()
    }
    const on = <T>(name: string, use: (data: T) => void) =>
      source.addEventListener(name, (event) => {
        if (event.lastEventId !== '') this.#lastId = event.lastEventId
        use(JSON.parse(event.data))
      })
    on<CallsEvent>('calls', (event) => this.#tell((one) => one.calls?.(event)))
    on<SealedEvent>('sealed', (event) => this.#tell((one) => one.sealed?.(event)))
    on<EscalationsEvent>('escalations', (event) => this.#tell((one) => one.escalations?.(event)))
    on<StatusJson>('status', (event) => {
      this.#tell((one) => one.status?.(event))
      // Later changes are sent; the first status comes once the gateway has read what it compares them with.
      if (isFirst && this.#wasOpen) this.#tell((one) => one.reopened?.())
      isFirst = false
      this.#wasOpen = true
    })
    on<EndEvent>('end', () => void this.#end())
  }

  async #end(): Promise<void> {
    this.#close()
    const mine = this.#generation
    const state = await stateOfSession()
    // Meanwhile the connection was opened again.
    if (mine !== this.#generation) return
    this.#become(state)
    if (state === 'lost') this.#again()
  }

  #tell(say: (listener: EventListeners) => void): void {
    for (const one of this.#listeners.keys()) say(one)
  }

  #again(): void {
    this.#close()
    this.#timer = setTimeout(() => {
      if (!document.hidden) this.#adjust()
    }, AGAIN_MS)
  }

  #pause(): void {
    this.#close()
    if (!this.#isOver) this.#become('paused')
  }

  #close(): void {
    this.#generation++
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

/** The cookie is renewed while the user is active; the cookie of the connection's start has expired by then. */
async function stateOfSession(): Promise<'lost' | 'ended' | 'refused'> {
  try {
    const response = await fetch('/api/session')
    if (response.status === 401) return 'ended'
    if (response.status === 403) return 'refused'
    if (!response.ok) return 'lost'
    const session: SessionJson = await response.json()
    return session.may.read ? 'lost' : 'refused'
  } catch {
    // The gateway cannot be reached, and may come back.
    return 'lost'
  }
}
