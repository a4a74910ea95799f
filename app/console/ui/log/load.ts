// Loads the view of the log.
import type { LogJson, RecordJson, RecordsJson } from '../../../log/log-json.js'
import type { Location } from '../../api.js'
import { type Api, ApiError } from '../kit/api.js'

export interface LogData {
  readonly log: LogJson
  /** Undefined if the client may not read records. */
  readonly records: RecordsJson | undefined
  /** The record that the path names. */
  readonly shown: RecordJson | undefined
}

interface FilterField {
  readonly name: string
  readonly label: string
  readonly isDay?: boolean
  /** Values and their names; the first is the default. */
  readonly options?: readonly (readonly [value: string, name: string])[]
}

/** The filters of the form, in its order. */
export const filterFields: readonly FilterField[] = [
  { name: 'since', label: 'From', isDay: true },
  { name: 'until', label: 'To, before', isDay: true },
  { name: 'tenant', label: 'Tenant' },
  { name: 'principal', label: 'Caller' },
  { name: 'server', label: 'Server' },
  { name: 'tool', label: 'Tool' },
  {
    name: 'decision',
    label: 'Decision',
    options: [
      ['', 'any'],
      ['allow', 'allowed'],
      ['deny', 'denied'],
    ],
  },
  { name: 'trace_id', label: 'Trace' },
]

/** The records of the table: all of a trace, or by default all calls. */
export const recordKinds = ['calls', 'events', 'all'] as const
export type RecordKind = (typeof recordKinds)[number]

export function recordKindOf(query: string): RecordKind {
  const given = new URLSearchParams(query)
  const named = recordKinds.find((kind) => kind === given.get('show'))
  return named ?? (given.has('trace_id') ? 'all' : 'calls')
}

/** The query of the API for the filter in the query of the page; `extra` for all but what the filter has. */
export function filterQuery(query: string, extra: Readonly<Record<string, string>> = {}): string {
  const given = new URLSearchParams(query)
  const wanted = new URLSearchParams(extra)
  for (const { name } of filterFields) {
    const value = given.get(name)?.trim()
    if (value !== undefined && value !== '') wanted.set(name, value)
  }
  return wanted.toString()
}

export async function loadLog(api: Pick<Api, 'get'>, { path, query }: Location): Promise<LogData> {
  const [, , leaf] = path.split('/')
  const before = new URLSearchParams(query).get('before')
  const kind = { calls: { kind: 'call' }, events: { kind: 'event' }, all: {} }[recordKindOf(query)]
  const asked = filterQuery(query, { ...kind, ...(before === null ? {} : { before }) })
  const [log, records, shown] = await Promise.all([
    api.get<LogJson>('/api/log'),
    leaf === undefined ? recordsOf(api, asked) : undefined,
    leaf === undefined ? undefined : api.get<RecordJson>(`/api/records/${encodeURIComponent(leaf)}`),
  ])
  return { log, records, shown }
}

async function recordsOf(api: Pick<Api, 'get'>, query: string): Promise<RecordsJson | undefined> {
  try {
    return await api.get<RecordsJson>(`/api/records?${query}`)
  } catch (error) {
    if (error instanceof ApiError && error.refusal.status === 403) return undefined
    throw error
  }
}
