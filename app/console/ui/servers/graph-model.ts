// The graph of callers and servers: its nodes, the most used first, and the calls between them.
import type { ServersData } from './load.js'

const MAX_CALLERS = 20
const MAX_SERVERS = 20

export interface Counts {
  sent: number
  denied: number
  /** The failed ones among the sent calls. */
  failed: number
  /** Calls that wait for a person. */
  waiting: number
}

export interface GraphNode extends Counts {
  readonly key: string
  readonly name: string
  /** The tenant of a caller. */
  readonly tenant?: string
  /** Number of nodes that this one stands for, if there are too many. */
  readonly others?: number
}

export interface GraphEdge extends Counts {
  readonly caller: string
  readonly server: string
}

export interface Graph {
  readonly callers: readonly GraphNode[]
  readonly servers: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  /** Of all calls, those that no edge has too. */
  readonly total: Counts
  /** The calls that are in the sums alone. */
  readonly undrawn: Counts
}

/** A server of the policy is there without calls too. */
export function graphOf({ servers, calls, waiting }: ServersData): Graph {
  const callers = new Map<string, GraphNode>()
  const targets = new Map<string, GraphNode>(
    servers.map(({ server }) => [server, { key: server, name: server, ...none() }]),
  )
  const edges = new Map<string, GraphEdge>()
  const total = none()
  const count = (tenant: string, caller: string, server: string, counts: Counts): void => {
    const key = JSON.stringify([tenant, caller])
    const edgeKey = JSON.stringify([key, server])
    add(total, counts)
    add(known(callers, key, { key, name: caller, tenant, ...none() }), counts)
    add(known(targets, server, { key: server, name: server, ...none() }), counts)
    add(known(edges, edgeKey, { caller: key, server, ...none() }), counts)
  }
  for (const { tenant, caller, server, allowed, denied, failed } of calls?.pairs ?? [])
    count(tenant, caller, server, { sent: allowed, denied, failed, waiting: 0 })
  // A caller whose token names nobody is counted under the name of its agent, as its other calls are.
  for (const { tenant, principal, principal_kind: kind, agent = principal, server } of waiting)
    count(tenant, kind === undefined ? agent : principal, server.replace(/(?!^)@[^@]*$/, ''), {
      ...none(),
      waiting: 1,
    })
  const undrawn = none()
  if (calls !== undefined) {
    const sums = { sent: calls.allowed, denied: calls.denied, failed: calls.failed }
    for (const name of ['sent', 'denied', 'failed'] as const) {
      undrawn[name] = Math.max(0, sums[name] - total[name])
      total[name] += undrawn[name]
    }
  }
  const [left, callerOf] = foremost([...callers.values()], MAX_CALLERS)
  const [right, serverOf] = foremost([...targets.values()], MAX_SERVERS)
  const drawn = new Map<string, GraphEdge>()
  for (const edge of edges.values()) {
    const ends = { caller: callerOf(edge.caller), server: serverOf(edge.server) }
    add(known(drawn, JSON.stringify([ends.caller, ends.server]), { ...ends, ...none() }), edge)
  }
  return { callers: left, servers: right, edges: [...drawn.values()].sort(byCalls), total, undrawn }
}

const OTHERS = 'others'

/** The nodes that are drawn, the rest as one; and a function that finds the node of a key. */
function foremost(
  nodes: readonly GraphNode[],
  limit: number,
): [nodes: readonly GraphNode[], nodeOf: (key: string) => string] {
  const sorted = nodes.toSorted(byCalls)
  if (sorted.length <= limit) return [sorted, (key) => key]
  const rest = sorted.slice(limit - 1)
  const others = { key: OTHERS, name: '', others: rest.length, ...none() }
  for (const node of rest) add(others, node)
  const hidden = new Set(rest.map(({ key }) => key))
  return [[...sorted.slice(0, limit - 1), others], (key) => (hidden.has(key) ? OTHERS : key)]
}

/** Nodes with calls that wait for a person come first, because somebody must act. */
function byCalls(one: Counts, other: Counts): number {
  return other.waiting - one.waiting || callsOf(other) - callsOf(one)
}

function callsOf({ sent, denied, waiting }: Counts): number {
  return sent + denied + waiting
}

function none(): Counts {
  return { sent: 0, denied: 0, failed: 0, waiting: 0 }
}

function add(to: Counts, counts: Counts): void {
  to.sent += counts.sent
  to.denied += counts.denied
  to.failed += counts.failed
  to.waiting += counts.waiting
}

function known<T>(map: Map<string, T>, key: string, value: T): T {
  const found = map.get(key)
  if (found !== undefined) return found
  map.set(key, value)
  return value
}
