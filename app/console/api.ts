// The types that the server side of the console shares with its pages. The pages import these types and no code of the server.
import type { SessionJson } from '../admin/session.js'
import type { StatusJson } from './status-operation.js'

/** A refusal of the API, as its JSON says. */
export interface ApiRefusal {
  readonly status: number
  /** A code of docs/reference/errors.md. */
  readonly error: string
  readonly message: string
  readonly denial_reason?: string
  /** The escalation that is meant, of several. */
  readonly escalation_id?: string
}

/** The path below `/console` and the query. */
export interface Location {
  readonly path: string
  readonly query: string
}

export interface SessionTimes {
  readonly endsAt: number
  /** Milliseconds without activity of the user after which it ends. */
  readonly idleMs: number
  /** Before this time, activity is not reported. */
  readonly keepFrom: number
}

/** The first state of a page, which is in the page as JSON. */
export interface PageState {
  readonly location: Location
  /** Undefined if nobody is signed in. */
  readonly session: SessionJson | undefined
  readonly csrf: string
  /** The times of a session that ends by itself, in milliseconds since the epoch by the clock of the gateway. */
  readonly times?: SessionTimes | undefined
  /** Absent if the client may not read it. */
  readonly status?: StatusJson | undefined
  /** The value that the view's `load` returned. */
  readonly data?: unknown
  /** The reason why the view has no data. */
  readonly error?: ApiRefusal | undefined
  /** The ways to sign in. */
  readonly login: { readonly token: boolean; readonly oidc: boolean; readonly users: boolean }
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly now: number
  /** The gateway of another machine for which `svc console` serves the pages; absent: the gateway serves them. */
  readonly servedFor?: string | undefined
  /** Verifier keys of witnesses, one a line, that `svc console` was started with. */
  readonly witnessKeys?: string | undefined
}

export type Theme = 'light' | 'dark'

export interface PageRequest extends Omit<PageState, 'data' | 'error' | 'status'> {
  readonly theme: Theme | undefined
  /** The response of the API to the client. */
  ask(path: string): Promise<{ readonly status: number; readonly text: string }>
  /** `style` is the text of the stylesheet. */
  readonly assets: { readonly script: Asset; readonly icon: Asset; readonly style: string }
}

export interface Asset {
  readonly path: string
  /** The value of the `integrity` attribute. */
  readonly integrity: string
}

/** The module `ui/page.js`: renders a whole page. */
export interface Pages {
  render(request: PageRequest): Promise<{ readonly status: number; readonly html: string }>
}
