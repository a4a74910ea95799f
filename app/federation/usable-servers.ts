// Identifies the caller of an endpoint of several servers, and runs an action for all servers that it may use. Nobody waits
// for the slowest: what comes later is announced.
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Call,
  failed,
  type Identity,
  principalKeyOf,
  type RequestedResource,
  requestReference,
  resolveOptional,
  services,
} from '@svc/core'
import { messageOf, sha256Hex } from '@svc/core/json'
import { normalized } from '@svc/core/match'
import type { BudgetUser } from '../budget/budget.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { type ClientRequest, linkTo } from './client-request.js'
import type { CallHooks } from './server-calls.js'
import { type ServerLink, ServerUnavailable } from './server-calls.js'

/** Time that a client waits for a server of which nothing is known, in milliseconds: a command may be starting. */
const firstWaitMs = 3_000
/** The same for a server whose last list is known: once it did not respond in this time, nobody waits for it. */
const refreshMs = 1_000

/** The result of a server, or the error that makes it unavailable; both if the value is a retained one. */
export type ServerResult<T> =
  | { readonly server: string; readonly value: T; readonly unavailable?: ServerUnavailable }
  | { readonly server: string; readonly unavailable: ServerUnavailable }

export interface ServerAction<T> {
  run(server: string, hooks: CallHooks): Promise<T>
  /** The value that was read last; undefined if there is none. The rules of a judged call say what of it the caller gets. */
  readonly retained?: (server: string) => ((rules: Call) => T) | undefined
}

/**
 * Runs the action at the same time for the servers that the caller may use, and returns the results in their order. If these
 * servers are not known, one call goes first: once it is judged, its rules tell which other servers the caller may use, so
 * that no denied call is recorded which the caller did not make.
 */
export async function onUsableServers<T>(
  request: ClientRequest,
  action: ServerAction<T>,
): Promise<ServerResult<T>[]> {
  const { servers, session, scope, config, clock, health } = request
  const known = session.usable
  const isKnown = known !== undefined && known.scope === scope && clock.monotonic() < known.until
  const running = new RunningAction(request, action, isKnown ? known.rules : undefined)
  const mayBe = isKnown ? servers.filter((server) => known.servers.includes(server)) : servers
  // A server that is left alone has no call whose rules could tell anything.
  const first = mayBe.find((server) => !health.isInTrouble(server)) ?? mayBe[0]
  if (first === undefined) return []
  const leading = isKnown ? undefined : running.lead(first)
  const rules = await leading?.judged
  const allowed = mayBe.filter(
    (server) => server === first || rules === undefined || mayUseServer(rules, server),
  )
  const results = allowed.map((server) =>
    server === first && leading !== undefined ? leading.result : running.resultOf(server),
  )
  const found = (await running.untilOneResponds(await Promise.all(results))).filter(
    (result) => !isHidden(result),
  )
  for (const result of found)
    if (result.unavailable !== undefined) request.logMissing(result.server, result.unavailable.message)
  if (!isKnown) {
    const until = clock.monotonic() + config.list_ttl_ms
    session.usable = { servers: found.map(({ server }) => server), scope, until, rules: running.rules }
  }
  return found
}

export function usableLinks(request: ClientRequest): Promise<ServerResult<ServerLink>[]> {
  const run = (server: string, hooks: CallHooks): Promise<ServerLink> => linkTo(request, server, hooks)
  return onUsableServers(request, { run })
}

class RunningAction<T> {
  #request: ClientRequest
  #action: ServerAction<T>
  /** A judged call of the caller. */
  rules: Call | undefined
  /** The servers that were not waited for any longer, and had not been slow before. */
  readonly #late = new Map<string, Promise<ServerResult<T>>>()

  constructor(request: ClientRequest, action: ServerAction<T>, rules: Call | undefined) {
    this.#request = request
    this.#action = action
    this.rules = rules
  }

  /** `judged` resolves once the first call is judged; with undefined if there is none. */
  lead(server: string): {
    readonly result: Promise<ServerResult<T>>
    readonly judged: Promise<Call | undefined>
  } {
    let call: Call | undefined
    let judge: (call: Call | undefined) => void = () => undefined
    const judged = new Promise<Call | undefined>((resolve) => {
      judge = resolve
    })
    const onCall = (begun: Call): void => {
      call ??= begun
    }
    const result = this.#wait(server, { onCall, onJudged: (allowed) => judge(allowed) })
    const isOver = (): void => judge(call)
    result.then(isOver, isOver)
    return { result, judged }
  }

  resultOf(server: string): Promise<ServerResult<T>> | ServerResult<T> {
    const reason = this.#request.health.backingOff(server)
    return reason === undefined ? this.#wait(server, {}) : this.#without(server, reason)
  }

  async #wait(server: string, hooks: CallHooks): Promise<ServerResult<T>> {
    const { health, session } = this.#request
    const onJudged = (call: Call): void => {
      this.rules ??= call
      hooks.onJudged?.(call)
    }
    const running = serverResultOf(server, this.#action.run(server, { ...hooks, onJudged }))
    const over = new AbortController()
    const waitMs = this.#waitMs(server)
    const isTooLate = delay(waitMs, undefined, { signal: over.signal }).catch(() => undefined)
    const result = await Promise.race([running, isTooLate]).finally(() => over.abort())
    if (result === undefined) {
      health.noteSlow(server)
      if (waitMs > 0) this.#late.set(server, running)
      running.catch((error: unknown) => this.#request.logMissing(server, messageOf(error)))
      return this.#without(server, 'The server has not responded yet.')
    }
    if (isUnreachable(result)) return this.#without(server, result.unavailable.message)
    session.missing.delete(server)
    return result
  }

  /** If no server has responded, nobody else is delayed by waiting for the first that does, once. */
  async untilOneResponds(results: readonly ServerResult<T>[]): Promise<readonly ServerResult<T>[]> {
    if (this.#late.size === 0 || results.some((result) => 'value' in result)) return results
    const responses = [...this.#late.values()].map(async (running) => {
      const result = await running
      if (!('value' in result)) throw result.unavailable
      return result
    })
    const first = await Promise.any(responses).catch(() => undefined)
    if (first === undefined) return results
    this.#request.session.missing.delete(first.server)
    return results.map((result) => (result.server === first.server ? first : result))
  }

  #waitMs(server: string): number {
    if (this.#request.health.isInTrouble(server)) return 0
    return this.#action.retained?.(server) === undefined ? firstWaitMs : refreshMs
  }

  #without(server: string, message: string): ServerResult<T> {
    this.#request.session.missing.add(server)
    const outcome = failed('UPSTREAM_UNREACHABLE', message)
    const reply = {
      outcome,
      status: 502,
      sessionId: undefined,
      response: undefined,
      result: undefined,
      isSessionLost: false,
    }
    const unavailable = new ServerUnavailable(server, reply)
    const retained = this.#action.retained?.(server)
    if (retained === undefined || this.rules === undefined) return { server, unavailable }
    return { server, value: retained(this.rules), unavailable }
  }
}

/** Rejects with errors that are not `ServerUnavailable`. */
export async function serverResultOf<T>(server: string, acting: Promise<T>): Promise<ServerResult<T>> {
  try {
    return { server, value: await acting }
  } catch (error) {
    if (error instanceof ServerUnavailable) return { server, unavailable: error }
    throw error
  }
}

function mayUseServer(call: Call, server: string): boolean {
  const reference = requestReference({ kind: 'protocol', server, name: '', version: UNVERSIONED })
  return call.mayRequest(reference, 'protocol')
}

/** A server that the caller may not use is not reported as unavailable. */
function isHidden<T>(result: ServerResult<T>): boolean {
  if ('value' in result) return false
  const { outcome } = result.unavailable.reply
  return outcome.kind === 'denied' && outcome.code === 'TOOL_NOT_ALLOWED'
}

function isUnreachable<T>(
  result: ServerResult<T>,
): result is Extract<ServerResult<T>, { unavailable: ServerUnavailable }> {
  if ('value' in result) return false
  const { outcome } = result.unavailable.reply
  return outcome.kind === 'failed' && outcome.code === 'UPSTREAM_UNREACHABLE'
}

/** Identifies the caller of an endpoint of several servers, and the servers that its token is for. */
export interface Caller {
  readonly identity: Identity | undefined
  /** The caller at this endpoint, as a member of its tenant. */
  readonly user: Required<Pick<BudgetUser, 'owner' | 'member'>>
  /** The agent run that the headers name. */
  readonly run: string
  /** A hash of the headers on which the caller's lists depend. */
  readonly credentials: string
  /** The servers of the endpoint that the token is for. */
  readonly servers: readonly string[]
}

/** Headers that may restrict what a caller may use. */
const restricting = ['authorization', 'x-tenant', 'x-node-id', 'x-agent-ref']

/** Rejects with `Refusal`. */
export async function identifyCaller(
  headers: IncomingHttpHeaders,
  used: RequestedResource,
  policy: ActivePolicy,
): Promise<Caller> {
  if (headers.origin !== undefined) policy.origins.check(headers)
  const identify = resolveOptional(policy.container, services.identify)
  let allowed: ReadonlySet<string> | undefined
  const identity = await identify?.(headers, async (servers) => {
    allowed = servers
    return true
  })
  const credentials = sha256Hex(JSON.stringify(restricting.map((name) => headers[name] ?? null)))
  return {
    identity,
    // If no stage identifies callers, requests with the same headers count as one caller.
    user: {
      owner: identity?.tenant ?? '',
      member: JSON.stringify([used.path, identity === undefined ? credentials : principalKeyOf(identity)]),
    },
    run: JSON.stringify([headers['x-node-id'] ?? null, headers['x-agent-ref'] ?? null]),
    credentials,
    servers: used.servers.filter((server) => allowed === undefined || allowed.has(normalized(server, 'NFC'))),
  }
}
