// What the view of the log begins with.
import type { LogJson, RecordJson, RecordsJson } from '../../../log/log-json.js'
import type { Location } from '../../api.js'
import { type Api, ApiError } from '../kit/api.js'

export interface LogData {
  readonly log: LogJson
  /** Undefined for those who may not read records. */
  readonly records: RecordsJson | undefined
  /** The record that the path names. */
  readonly shown: RecordJson | undefined
}

/** The filters of the form, in its order. */
export const filterFields = [
  ['since', 'From', '2026-11-01'],
  ['until', 'To, before', '2026-12-01'],
  ['tenant', 'Tenant', ''],
  ['principal', 'Caller', ''],
  ['tool', 'Tool', ''],
  ['server', 'Server', ''],
  ['decision', 'Decision', 'allow or deny'],
  ['trace_id', 'Trace', ''],
] as const

/** The query of the API for the filter in the query of the page; `extra` for all but what the filter has. */
export function filterQuery(query: string, extra: Readonly<Record<string, string>> = {}): string {
  const given = new URLSearchParams(query)
  const wanted = new URLSearchParams(extra)
  for (const [name] of filterFields) {
    const value = given.get(name)?.trim()
    if (value !== undefined && value !== '') wanted.set(name, value)
  }
  return wanted.toString()
}

export async function loadLog(api: Pick<Api, 'get'>, { path, query }: Location): Promise<LogData> {
  const [, , leaf] = path.split('/')
  const before = new URLSearchParams(query).get('before')
  const asked = filterQuery(query, before === null ? {} : { before })
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
