// What the server side of the console and its pages have in common. The pages import these types and no code of the server.
import type { SessionJson } from '../admin/session.js'
import type { StatusJson } from './status-operation.js'

/** A refusal of the API, as its JSON says. */
export interface ApiRefusal {
  readonly status: number
  /** A code of docs/reference/errors.md. */
  readonly error: string
  readonly message: string
  readonly denial_reason?: string
}

/** The path below `/console` and the query. */
export interface Location {
  readonly path: string
  readonly query: string
}

export interface SessionTimes {
  readonly endsAt: number
  /** How long it lasts without activity of its user. */
  readonly idleMs: number
  /** From then on an activity is worth a request. */
  readonly keepFrom: number
}

/** What a page begins with; it is in the page as JSON. */
export interface PageState {
  readonly location: Location
  /** Undefined if nobody is signed in. */
  readonly session: SessionJson | undefined
  readonly csrf: string
  /** Of a session that ends by itself; milliseconds since the epoch, by the clock of the gateway. */
  readonly times?: SessionTimes | undefined
  /** Absent for those who may not read it. */
  readonly status?: StatusJson | undefined
  /** What the view's `load` gave. */
  readonly data?: unknown
  /** Why the view has no data. */
  readonly error?: ApiRefusal | undefined
  /** How people sign in. */
  readonly login: { readonly token: boolean; readonly oidc: boolean; readonly users: boolean }
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly now: number
  /** The gateway of another machine for which `svc console` serves the pages; absent: the gateway serves them. */
  readonly servedFor?: string | undefined
}

export type Theme = 'light' | 'dark'

export interface PageRequest extends Omit<PageState, 'data' | 'error' | 'status'> {
  readonly theme: Theme | undefined
  /** What the API has for the client. */
  ask(path: string): Promise<{ readonly status: number; readonly text: string }>
  /** `style` is the text of the stylesheet. */
  readonly assets: { readonly script: Asset; readonly icon: Asset; readonly style: string }
}

export interface Asset {
  readonly path: string
  /** For the `integrity` attribute. */
  readonly integrity: string
}

/** The module `ui/page.js`: renders a whole page. */
export interface Pages {
  render(request: PageRequest): Promise<{ readonly status: number; readonly html: string }>
}
