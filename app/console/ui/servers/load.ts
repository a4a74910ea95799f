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

type CallPair = ActivityJson['pairs'][number]

/** The sums of all calls, and the calls of pairs and routes, of which there may be more. */
export interface CallSums
  extends Pick<ActivityJson, 'allowed' | 'denied' | 'failed' | 'pairs_more' | 'routes_more'> {
  readonly pairs: readonly CallPair[]
  readonly routes: readonly CallRoute[]
}

export interface ServersData extends ServersJson {
  /** The calls of the last 24 hours; undefined if the gateway keeps no log of its own. */
  readonly calls: CallSums | undefined
  readonly waiting: readonly EscalationJson[]
  /** Whether others wait too. */
  readonly waitingMore: boolean
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
  const [found, calls, { escalations, more }, clients, policy, { tools: access }, { blocks }] =
    await Promise.all([
      api.get<ServersJson>('/api/servers'),
      activityOf(api, of),
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
    ...{ calls, waiting: escalations, waitingMore: more, clients, review, policy, access, blocks },
  }
}

async function activityOf(
  api: Pick<Api, 'get'>,
  of: URLSearchParams | undefined,
): Promise<ActivityJson | undefined> {
  try {
    return await api.get<ActivityJson>(`/api/activity${of === undefined ? '' : `?${of}`}`)
  } catch (error) {
    if (apiRefusalOf(error).error === 'TARGET_NOT_FOUND') return undefined
    throw error
  }
}

/** Adds calls to the counts. Those that a stream in a hurry left out count with the row that stands for them. */
export function withCalls(sums: CallSums, { rows, one_in: weight }: CallsEvent): CallSums {
  const total = { allowed: sums.allowed, denied: sums.denied, failed: sums.failed }
  const pairs = new Map(sums.pairs.map((one) => [pairKey(one), one]))
  const routes = new Map(sums.routes.map((one) => [routeKey(one), one]))
  for (const row of rows) {
    if (row.kind === 'event') continue
    const { tenant, server, tool, decision, status, caller } = row
    // A row does not say what it names; the next reading of the counts does.
    const kind = /^[a-z]+(?:\/[a-z_]+)+$/.test(tool) ? 'protocol' : 'tool'
    const isDenied = decision === 'deny'
    const own = {
      allowed: isDenied ? 0 : weight,
      denied: isDenied ? weight : 0,
      failed: !isDenied && status === 'error' ? weight : 0,
    }
    Object.assign(total, added(total, own))
    const pair = { tenant, caller, server, ...own }
    const route = { ...pair, tool, kind } as const
    pairs.set(pairKey(pair), added(pair, pairs.get(pairKey(pair))))
    routes.set(routeKey(route), added(route, routes.get(routeKey(route))))
  }
  return { ...sums, ...total, pairs: [...pairs.values()], routes: [...routes.values()] }
}

type Counted = Pick<CallSums, 'allowed' | 'denied' | 'failed'>

function added<One extends Counted>(one: One, more: Counted = { allowed: 0, denied: 0, failed: 0 }): One {
  return {
    ...one,
    allowed: one.allowed + more.allowed,
    denied: one.denied + more.denied,
    failed: one.failed + more.failed,
  }
}

function pairKey({ tenant, caller, server }: Omit<CallPair, keyof Counted>): string {
  return JSON.stringify([tenant, caller, server])
}

function routeKey({ tenant, caller, server, tool, kind }: Omit<CallRoute, keyof Counted>): string {
  return JSON.stringify([tenant, caller, server, tool, kind])
}
