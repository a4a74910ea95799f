// The variables of conditions, from a call.
import {
  type Call,
  type CallRequest,
  type Identity,
  identity,
  isSideEffecting,
  type KeptValues,
  recordedCall,
  sideEffects,
  Unrecorded,
} from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { compilePath, ExpressionError, type ReadPath, type Variables } from './engine/index.js'

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

interface ReadCall {
  readonly call: Call
  readonly request: CallRequest
  /** The call's input; for a recorded call, the part that its record keeps. */
  readonly input: Pick<Variables, 'args' | 'params'>
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Members that a record may leave out are read when a condition reads them. */
function variablesOf({ call, request, input, now }: ReadCall, sources: VariableSources): Variables {
  const caller = call.get(identity) ?? { tenant: sources.tenant, authenticated: false, roles: [] }
  return {
    args: input.args,
    params: input.params,
    caller: callerOf(caller),
    claimed: claimsOf(call),
    tool: toolOf(call, request, sources),
    call: callOf(call, request, now),
    vars: varsFor(caller, sources.vars),
  }
}

function varsFor(caller: Identity, { common, tenants }: PolicyVars): PolicyVars['common'] {
  return tenants.size === 0 ? common : (tenants.get(caller.tenant) ?? common)
}

/** The variables by the call's request, and by each other tool that an upstream may read in its name. */
export function variablesByReading(
  read: ReadCall,
  sources: VariableSources,
): readonly [Variables, ...Variables[]] {
  const { call, request } = read
  const others = request.readings.filter((reading) => reading !== request.reference)
  const kept = call.get(recordedCall)?.kept
  return [
    withKept(variablesOf(read, sources), kept),
    ...others.map((reading) =>
      variablesOf({ ...read, request: requestAs(request, toolIn(reading)) }, sources),
    ),
  ]
}

/** Adds the values that rules kept of a recorded call beside its arguments, such as `caller.client`. */
function withKept(variables: Variables, kept: KeptValues | undefined): Variables {
  if (kept === undefined) return variables
  const values = [
    ...Object.entries(kept.values),
    ...(kept.absent ?? []).map((path) => [path, undefined] as const),
  ]
  for (const [path, value] of values) {
    const [, record, member] = /^(caller|claimed|tool|call)\.(\w+)$/.exec(path) ?? []
    if (record === undefined || member === undefined || member === 'time') continue
    Object.defineProperty(variables[record as 'caller'], member, { value })
  }
  return variables
}

function requestAs(request: CallRequest, { name, version }: { name: string; version: string }): CallRequest {
  return Object.create(request, { name: { value: name }, version: { value: version } })
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

function callerOf(caller: Identity) {
  return {
    get tenant() {
      return caller.tenant
    },
    get sub() {
      return caller.subject ?? caller.userId
    },
    get client() {
      return caller.client ?? caller.clientId
    },
    get roles() {
      return caller.roles
    },
    get scopes() {
      return caller.scopes ?? []
    },
  }
}

function claimsOf({ agent }: Call) {
  return {
    get agent() {
      return agent.agentRef ?? undefined
    },
    get node() {
      return agent.nodeId ?? undefined
    },
    get parent() {
      return agent.parentRef ?? undefined
    },
  }
}

function toolOf(call: Call, request: CallRequest, { annotations }: VariableSources) {
  const { server, name, version, reference } = request
  return {
    server,
    name,
    version,
    // It may refuse a call whose arguments are ambiguous.
    get side_effecting() {
      return isSideEffecting(request, call.get(sideEffects))
    },
    get annotations() {
      const changes = annotations?.(reference)
      return changes === undefined ? undefined : { readOnlyHint: !changes }
    },
  }
}

function callOf(call: Call, { method }: CallRequest, now: number) {
  return {
    get time() {
      if (call.get(recordedCall)?.isNamedOnly === true) throw new Unrecorded(['call.time'])
      return new Date(now)
    },
    get protocol() {
      // A record tells MCP from the two protocols without methods.
      if (method === null && call.get(recordedCall) !== undefined) throw new Unrecorded(['call.protocol'])
      return call.protocol
    },
    method: method ?? '',
  }
}

const names = new BoundedMap<string, ReadPath['names']>(1024)

/** The names of a path that a rule kept, of whatever policy; undefined if it is not one of `args` or `params`. */
export function keptNames(path: string): ReadPath['names'] | undefined {
  if (!/^(?:args|params)\b/.test(path)) return undefined
  let found = names.get(path)
  if (found === undefined) {
    found = namesIn(path)
    names.set(path, found)
  }
  return found
}

function namesIn(path: string): ReadPath['names'] {
  try {
    return compilePath(path, { vars: {} }).names
  } catch (error) {
    if (error instanceof ExpressionError) return []
    throw error
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
