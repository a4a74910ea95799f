// The variables of conditions, from a call.
import { type Call, type CallRequest, type Identity, identity, isSideEffecting, sideEffects } from '@svc/core'
import type { Variables } from './engine/index.js'

/** A value of `vars` in the policy, for each tenant. */
export interface PolicyVars {
  readonly common: Readonly<Record<string, unknown>>
  readonly tenants: ReadonlyMap<string, Readonly<Record<string, unknown>>>
}

/** Paths of what callers and servers claim of themselves. */
export const claimedPaths = ['claimed', 'tool.annotations'] as const

interface VariableSources {
  readonly vars: PolicyVars
  /** Whether a tool has side effects by the annotations of its server; absent if no rule asks. */
  readonly annotations: ((reference: string) => boolean | undefined) | undefined
  /** The gateway's tenant. */
  readonly tenant: string
}

/** `now` is in milliseconds since the epoch. */
function variablesOf(call: Call, request: CallRequest, sources: VariableSources, now: number): Variables {
  const caller = call.get(identity) ?? { tenant: sources.tenant, authenticated: false, roles: [] }
  return {
    args: request.args,
    params: request.params ?? {},
    caller: callerOf(caller),
    claimed: claimsOf(call),
    tool: toolOf(call, request, sources),
    call: { time: new Date(now), protocol: call.protocol, method: request.method ?? '' },
    vars: sources.vars.tenants.get(caller.tenant) ?? sources.vars.common,
  }
}

/** The variables by the call's request, and by each other tool that an upstream may read in its name. */
export function variablesByReading(
  call: Call,
  request: CallRequest,
  sources: VariableSources,
  now: number,
): readonly [Variables, ...Variables[]] {
  const others = request.readings.filter((reading) => reading !== request.reference)
  return [
    variablesOf(call, request, sources, now),
    ...others.map((reading) => variablesOf(call, { ...request, ...toolIn(reading) }, sources, now)),
  ]
}

/** The version of such a reading may be any text, which is encoded as the name is. */
function toolIn(reading: string): { name: string; version: string } {
  const segment = reading.slice(reading.lastIndexOf('/') + 1)
  const end = segment.lastIndexOf('@')
  return {
    name: decodeURIComponent(segment.slice(0, end)),
    version: decodeURIComponent(segment.slice(end + 1)),
  }
}

function callerOf({ tenant, subject, userId, client, clientId, roles, scopes = [] }: Identity) {
  return { tenant, sub: subject ?? userId, client: client ?? clientId, roles, scopes }
}

function claimsOf({ agent: { agentRef, nodeId, parentRef } }: Call) {
  return { agent: agentRef ?? undefined, node: nodeId ?? undefined, parent: parentRef ?? undefined }
}

function toolOf(call: Call, request: CallRequest, { annotations }: VariableSources) {
  const { server, name, version, reference } = request
  const changes = annotations?.(reference)
  return {
    server,
    name,
    version,
    // Computed if a condition reads it: it may refuse a call whose arguments are ambiguous.
    get side_effecting() {
      return isSideEffecting(request, call.get(sideEffects))
    },
    annotations: changes === undefined ? undefined : { readOnlyHint: !changes },
  }
}

/** `vars` of a policy: each a value, or `{ default, tenants }`. */
export function policyVars(vars: Readonly<Record<string, unknown>> = {}): PolicyVars {
  const common = Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, defaultOf(value)]))
  const tenants = new Set(Object.values(vars).flatMap((value) => Object.keys(overridesOf(value))))
  const of = (tenant: string) =>
    Object.fromEntries(
      Object.entries(vars).map(([name, value]) => {
        const overrides = overridesOf(value)
        return [name, Object.hasOwn(overrides, tenant) ? overrides[tenant] : common[name]]
      }),
    )
  return { common, tenants: new Map([...tenants].map((tenant) => [tenant, of(tenant)])) }
}

function defaultOf(value: unknown): unknown {
  return isPerTenant(value) ? value.default : value
}

function overridesOf(value: unknown): Readonly<Record<string, unknown>> {
  return isPerTenant(value) ? value.tenants : {}
}

interface PerTenant {
  readonly default: unknown
  readonly tenants: Readonly<Record<string, unknown>>
}

function isPerTenant(value: unknown): value is PerTenant {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
