// A view: one entry of the rail, with its pages below `/console/<id>`.
import type { ComponentType } from 'preact'
import type { SessionJson } from '../../../admin/session.js'
import type { Location } from '../../api.js'
import type { StatusJson } from '../../status-operation.js'
import type { Api } from './api.js'

export interface ViewProps<Data> {
  /** The value that `load` returned for this location. */
  readonly data: Data
  readonly location: Location
}

export interface ViewDefinition<Data> {
  /** The first segment of its paths. */
  readonly id: string
  readonly title: string
  readonly Icon: ComponentType
  /** Whether the rail has it for this client. */
  isFor(session: SessionJson): boolean
  /** The number beside its name in the rail; empty for none. */
  count?(status: StatusJson): string
  /** Loads the first state of the page. Runs on the server; in the browser a view may call it again. */
  load(api: Pick<Api, 'get' | 'text'>, location: Location): Promise<Data>
  readonly View: ComponentType<ViewProps<Data>>
}

export type AnyView = ViewDefinition<unknown>

/** Forgets the type of the data, which goes from `load` to `View`. */
export function defineView<Data>(definition: ViewDefinition<Data>): AnyView {
  return definition as ViewDefinition<unknown>
}
