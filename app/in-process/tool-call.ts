// A tool call of a program's own, as a call of the pipeline.
import {
  type Call,
  type Clock,
  callRequest,
  type Identity,
  type Ids,
  isRefusal,
  type Refusal,
  trustedCaller,
} from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { CallControl, isCallControl } from '@svc/core/pipeline'
import { agentOf, idempotencyKeyOf, traceOf } from '../http/call-headers.js'

/** The caller, if the program has authenticated it. */
export interface CallerIdentity
  extends Pick<Identity, 'tenant'>,
    Partial<Omit<Identity, 'authenticated' | 'tenant'>> {
  /** Scopes for `authn.oidc.scopes`; none by default. */
  readonly scopes?: readonly string[]
}

/** A tool call of a program. */
export interface ToolCall {
  readonly server: string
  readonly tool: string
  readonly version?: string
  readonly args: JsonObject
  /** Request headers, names in lower case: token, tenant, agent, trace, escalation and idempotency headers are read. */
  readonly headers?: Record<string, string>
  /** Takes the place of a token, which is then ignored. */
  readonly identity?: CallerIdentity
}

/** Throws what `callRequest` throws for names and arguments that have no canonical form. */
export function callOf(toolCall: CallControl | ToolCall, ids: Ids, clock: Clock): CallControl {
  if (isCallControl(toolCall)) return toolCall
  const { server, tool, version = 'unversioned', args, headers = {}, identity } = toolCall
  const { agent, refusal: agentRefusal } = agentOf(headers)
  const { key: idempotencyKey, refusal = agentRefusal } = keyOf(headers)
  const request = callRequest({
    kind: 'tool',
    method: null,
    server,
    name: tool,
    version,
    args,
    idempotencyKey,
  })
  const call = new CallControl({
    protocol: 'invoke',
    headers,
    trace: traceOf(headers, ids),
    agent,
    target: { server, serverVersion: version, tool, toolVersion: version, mcpMethod: null },
    receivedAt: clock.now(),
    read: () => {
      if (refusal !== undefined) throw refusal
      return request
    },
  })
  if (identity !== undefined) trustCaller(call, identity)
  return call
}

/** The idempotency key, or the refusal if the headers do not have a valid one. */
function keyOf(headers: Record<string, string>): { key: string | null; refusal?: Refusal } {
  try {
    return { key: idempotencyKeyOf(headers) }
  } catch (error) {
    if (isRefusal(error)) return { key: null, refusal: error }
    throw error
  }
}

/** Makes authn accept the caller in place of a token. */
export function trustCaller(call: Call, { scopes = [], ...known }: CallerIdentity): void {
  call.set(trustedCaller, {
    identity: { roles: [], ...known, ...(scopes.length === 0 ? {} : { scopes }), authenticated: true },
    scopes: new Set(scopes),
  })
}
