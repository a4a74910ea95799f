// Loads the view of the servers, and adds the calls that come meanwhile.
import type { BlocksJson } from '../../../admin/block-operations.js'
import type { EscalationJson, EscalationList } from '../../../escalations/escalation-json.js'
import type { ServerReviewJson } from '../../../gateway/operations.js'
import type { ActivityJson } from '../../activity-operation.js'
import type { Location } from '../../api.js'
import type { CallsEvent } from '../../events/event-schemas.js'
import type { AccessJson, PolicyJson } from '../../policy-operations.js'
import type { ClientsJson, ServersJson } from '../../server-operations.js'
import { type Api, apiRefusalOf } from '../kit/api.js'

export type CallRoute = Omit<ActivityJson['routes'][number], 'version'>

export interface ServersData extends ServersJson {
  /** The calls of the last 24 hours; undefined if the gateway keeps no log of its own. */
  readonly routes: readonly CallRoute[] | undefined
  readonly waiting: readonly EscalationJson[]
  readonly clients: ClientsJson
  /** The review of the shown server; undefined if none of its definitions waits. */
  readonly review: ServerReviewJson | undefined
  /** The tools of the shown server, their callers, and what operators have turned off. */
  readonly policy: PolicyJson | undefined
  readonly access: AccessJson['tools']
  readonly blocks: BlocksJson['blocks']
}

/** Undefined for the page with all servers. */
export function chosenServer({ path }: Location): string | undefined {
  const [, , name] = path.split('/')
  return name === undefined || name === '' ? undefined : decoded(name)
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    // A path that cannot be decoded names no server.
    return segment
  }
}

export function hrefOfServer(server: string): string {
  return `/console/servers/${encodeURIComponent(server)}`
}

export async function loadServers(api: Pick<Api, 'get'>, location: Location): Promise<ServersData> {
  const chosen = chosenServer(location)
  const of = chosen === undefined ? undefined : new URLSearchParams({ server: chosen })
  const [found, activity, { escalations }, clients, policy, { tools: access }, { blocks }] =
    await Promise.all([
      api.get<ServersJson>('/api/servers'),
      activityOf(api),
      api.get<EscalationList>('/api/escalations?status=pending&limit=500'),
      api.get<ClientsJson>('/api/clients'),
      of && api.get<PolicyJson>('/api/policy'),
      of === undefined ? { tools: [] } : api.get<AccessJson>(`/api/policy/access?${of}`),
      of === undefined ? { blocks: [] } : api.get<BlocksJson>('/api/blocks'),
    ])
  const isWaiting = found.servers.some(({ server, changed }) => server === chosen && Number(changed) > 0)
  const reviews = isWaiting
    ? await api.get<{ servers: ServerReviewJson[] }>('/api/definitions')
    : { servers: [] }
  const review = reviews.servers.find(({ server }) => server === chosen)
  return {
    ...found,
    ...{ routes: activity?.routes, waiting: escalations, clients, review, policy, access, blocks },
  }
}

async function activityOf(api: Pick<Api, 'get'>): Promise<ActivityJson | undefined> {
  try {
    return await api.get<ActivityJson>('/api/activity')
  } catch (error) {
    if (apiRefusalOf(error).error === 'TARGET_NOT_FOUND') return undefined
    throw error
  }
}

/** Adds calls to the counts. Those that a stream in a hurry left out count with the row that stands for them. */
export function withCalls(
  routes: readonly CallRoute[],
  { rows, one_in: weight }: CallsEvent,
): readonly CallRoute[] {
  const counted = new Map(routes.map((route) => [keyOf(route), route]))
  for (const row of rows) {
    if (row.kind === 'event') continue
    const { tenant, server, tool, decision, status, agent = '' } = row
    const caller = row.caller === '' ? agent : row.caller
    // A row does not say what it names; the next reading of the counts does.
    const kind = /^[a-z]+(?:\/[a-z_]+)+$/.test(tool) ? 'protocol' : 'tool'
    const key = keyOf({ tenant, caller, server, tool, kind })
    const { allowed, denied, failed } = counted.get(key) ?? { allowed: 0, denied: 0, failed: 0 }
    const isDenied = decision === 'deny'
    counted.set(key, {
      ...{ tenant, caller, server, tool, kind },
      allowed: allowed + (isDenied ? 0 : weight),
      denied: denied + (isDenied ? weight : 0),
      failed: failed + (!isDenied && status === 'error' ? weight : 0),
    })
  }
  return [...counted.values()]
}

function keyOf({
  tenant,
  caller,
  server,
  tool,
  kind,
}: Omit<CallRoute, 'allowed' | 'denied' | 'failed'>): string {
  return JSON.stringify([tenant, caller, server, tool, kind])
}
