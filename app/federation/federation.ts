// Serves several servers as one MCP server, in sessions of its own or without sessions (2026-07-28). A client's requests go
// to the servers as calls, which are judged and recorded as requests to /mcp/<server> are.
import {
  type Ids,
  isRefusal,
  type Logger,
  type MaybePromise,
  Refusal,
  type RequestedResource,
  resolveOptional,
  services,
} from '@svc/core'
import { canonicalize, messageOf, sha256Hex } from '@svc/core/json'
import { BoundedTable, unusedSessionMs } from '../budget/bounded-table.js'
import { memberKey } from '../budget/budget.js'
import { largeBodyBytes } from '../http/body.js'
import { roomForBody } from '../http/body-room.js'
import { traceOf } from '../http/call-headers.js'
import type { ClientExchange } from '../http/client-exchange.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { isStatelessExchange, type McpExchange, openExchange, withoutEmptyHeaders } from '../mcp/exchange.js'
import type { ClientFacts } from '../mcp/handshake.js'
import { checkAcceptsEvents } from '../mcp/headers.js'
import { invalidRequest, type Message } from '../mcp/message.js'
import type { Implementation } from '../mcp/protocol.js'
import { keepProtocolError, type RequestBody } from '../mcp/request.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { clientOfHandshake, clientOfMessage, readExchangeMessage } from './client-message.js'
import { type ClientRequest, clientCalls, endLink, linkTo, OwnHeaders } from './client-request.js'
import { respondToNotification, respondToRequest } from './respond-to-request.js'
import { type ServerCalls, ServerHealth, type ServerLink } from './server-calls.js'
import { openSessionStream } from './server-stream.js'
import { FederationSession, SessionEnded } from './session.js'
import { type SharedSession, SharedSessions, type SharedSessionsOptions } from './shared-sessions.js'
import { type Caller, identifyCaller, serverResultOf } from './usable-servers.js'

export interface FederationOptions extends SharedSessionsOptions {
  readonly ids: Ids
  /** A logger with a rate limit, for lines that callers can cause. */
  readonly limitedLogger: Logger
  readonly maxBodyBytes: number
  readonly serverInfo: Implementation
  /** Time without events after which a stream gets a comment, in milliseconds. */
  readonly keepAliveMs: number
  /** Whether endpoints offer only revisions with a handshake. */
  readonly isHandshakeOnly: boolean
  /** Ends a client's session at a server. */
  endServerSession(link: ServerLink): Promise<void>
}

/** One request to an endpoint of several servers. */
export interface IncomingExchange {
  readonly exchange: ClientExchange
  readonly method: McpExchange['method']
  readonly used: RequestedResource
  readonly policy: ActivePolicy
  readonly calls: ServerCalls
  /** The server of the endpoint, if its names are the client's. */
  readonly only?: string
  /** Set if this server has refused the request as it is. */
  readonly refused?: RequestOfOtherEra
}

/** A request that may succeed in the other era. */
export interface RequestOfOtherEra {
  readonly body: RequestBody
  /** Writes the refusal. */
  write(): MaybePromise<void>
}

interface PolicyFacts {
  /** Lists of one policy are not used under another. */
  readonly number: number
  /** Another policy may have other servers by these names. */
  readonly health: ServerHealth
}

/** Time after which a gateway that serves a session looks at it again, and writes that it serves it, in milliseconds. */
const touchMs = 60_000
/** Sessions of one caller, so that it cannot evict those of others. */
const maxSessionsPerCaller = 50
const maxSessions = 2_000

export class Federation {
  #options: FederationOptions
  /** Sessions by the ids that clients have, owned by the callers of an endpoint. */
  #sessions: BoundedTable<FederationSession>
  #policies = new WeakMap<ActivePolicy, PolicyFacts>()
  #policyCount = 0
  #shared: SharedSessions

  constructor(options: FederationOptions) {
    this.#options = options
    this.#shared = new SharedSessions(options)
    this.#sessions = new BoundedTable({
      clock: options.clock,
      what: 'sessions of several servers',
      limits: { limit: maxSessions, limitOfMember: maxSessionsPerCaller },
      unusedMs: unusedSessionMs,
      onEnd: (session) => {
        session.lists.clear()
        session.whenUnused(() => void this.#endAtServers(session))
      },
    })
  }

  async handle(incoming: IncomingExchange): Promise<void> {
    const { exchange: client, method, calls, used } = incoming
    const exchange = openExchange({
      method,
      headers: withoutEmptyHeaders(client.headers),
      isHeaderless: client.http === undefined,
      isHandshakeOnly: this.#options.isHandshakeOnly,
      server: '',
      upstream: noUpstream,
    })
    try {
      await this.#serve(incoming, exchange)
    } catch (error) {
      if (!isRefusal(error) || client.isBegun) throw error
      exchange.isForeignSession = error instanceof SessionEnded
      keepProtocolError(exchange, error)
      await calls.refuse(error, exchange, used)
    }
  }

  async #serve(incoming: IncomingExchange, exchange: McpExchange): Promise<void> {
    const { exchange: client, method, used, policy, calls } = incoming
    const caller = await policy.hold(() => identifyCaller(client.headers, used, policy))
    if (method === 'POST') {
      const { maxBodyBytes } = this.#options
      const isSmall = largeBodyBytes(client.http, maxBodyBytes) === 0
      const release = isSmall ? undefined : await roomForBody(client, caller.user, maxBodyBytes)
      try {
        const body = incoming.refused?.body ?? (await client.body(maxBodyBytes))
        const message = readExchangeMessage(exchange, body)
        // The stream that it opens has no end, and keeps little of it.
        if (message.type === 'request' && message.method === LISTEN_METHOD) release?.()
        return await this.#post(message, exchange, caller, incoming)
      } finally {
        release?.()
      }
    }
    if (isStatelessExchange(exchange))
      throw new Refusal('METHOD_NOT_ALLOWED', 'This revision has neither sessions nor a GET stream.')
    if (method === 'GET') checkAcceptsEvents(client.headers)
    const session = await this.#sessionOf(exchange, caller)
    if (method === 'DELETE') {
      this.#forget(session)
      calls.mcp.running.endSession(session.id)
      await endSession(this.#request(session, caller, incoming))
      return client.whole({ status: 204, headers: {}, body: '' })
    }
    await session.use(() =>
      openSessionStream(this.#request(session, caller, incoming), client, this.#options.keepAliveMs),
    )
  }

  async #post(
    message: Message,
    exchange: McpExchange,
    caller: Caller,
    incoming: IncomingExchange,
  ): Promise<void> {
    const session = await this.#sessionFor(message, exchange, caller)
    const request = this.#request(session, caller, incoming)
    const { exchange: client } = incoming
    if (message.type !== 'request') return respondToNotification(request, message, client)
    const { only, refused } = incoming
    if (only !== undefined && refused !== undefined) {
      const found = await serverResultOf(only, linkTo(request, only))
      if (!('value' in found)) {
        this.#forget(session)
        return refused.write()
      }
    }
    const isBeginning = message.method === 'initialize'
    if (isBeginning) client.setHeader(SESSION_ID_HEADER, session.key)
    await session.use(() => respondToRequest(request, message, client, this.#options))
  }

  /** Ends the sessions at the servers after the client's session has ended; a server would keep them until they expire. */
  async #endAtServers(session: FederationSession): Promise<void> {
    const { shared, servers } = session
    if (await shared?.isElsewhere()) return
    const links = await session.allLinks()
    await shared?.forget(servers)
    for (const link of links) {
      if (link.sessionId === undefined) continue
      try {
        await this.#options.endServerSession(link)
      } catch (error) {
        const fields = { server: link.server, reason: messageOf(error) }
        this.#options.limitedLogger.warn(fields, 'a session was not ended at its server')
      }
    }
  }

  async #sessionFor(message: Message, exchange: McpExchange, caller: Caller): Promise<FederationSession> {
    if (isStatelessExchange(exchange)) {
      // Each agent run and description of a client has one session.
      const client = clientOfMessage(message)
      const id = sha256Hex(canonicalize([caller.user.member, caller.run, { ...client }]))
      return this.#sessions.use(id, caller.user) ?? this.#begin(id, caller, client)
    }
    if (message.type === 'request' && message.method === 'initialize') {
      const client = clientOfHandshake(message)
      const { id, shared } = await this.#shared.begin(memberKey(caller.user), client)
      return this.#begin(id, caller, client, shared)
    }
    return this.#sessionOf(exchange, caller)
  }

  #begin(key: string, { user }: Caller, client: ClientFacts, shared?: SharedSession): FederationSession {
    const session = new FederationSession(key, user.owner, client, this.#options.clock, shared)
    return this.#sessions.add(key, user, session)
  }

  #forget({ key, lists }: FederationSession): void {
    this.#sessions.delete(key)
    lists.clear()
  }

  async #sessionOf(exchange: McpExchange, caller: Caller): Promise<FederationSession> {
    const id = exchange.headers[SESSION_ID_HEADER]
    if (typeof id !== 'string') {
      throw invalidRequest('Mcp-Session-Id is missing; begin with initialize.')
    }
    const session = this.#sessions.use(id, caller.user)
    if (session === undefined) return this.#open(id, caller)
    if (session.shared?.isShared === true) await this.#touch(session)
    return session
  }

  /** Learns whether the client has ended its session at another gateway. Rejects with `SessionEnded`. */
  async #touch(session: FederationSession): Promise<void> {
    try {
      const looking = session.refresh(touchMs)
      if (looking !== undefined) await looking.then(() => session.save())
    } catch (error) {
      if (error instanceof SessionEnded) this.#forget(session)
      throw error
    }
  }

  /** Opens a session that this gateway does not have. Rejects with `Refusal`. */
  async #open(id: string, caller: Caller): Promise<FederationSession> {
    const opened = await this.#shared.open(memberKey(caller.user), id)
    if (opened === undefined) throw new SessionEnded()
    const { client, settings, shared } = opened
    // Another request may have come meanwhile.
    const session = this.#sessions.use(id, caller.user) ?? this.#begin(id, caller, client, shared)
    if (settings !== undefined) session.adopt(settings)
    if (shared.isShared) await session.save()
    return session
  }

  #request(session: FederationSession, caller: Caller, incoming: IncomingExchange): ClientRequest {
    const { exchange: client, policy, used, calls, only } = incoming
    const { headers } = client
    const trace = traceOf(headers, this.#options.ids)
    const { number, health } = this.#factsOf(policy)
    client.setHeader('x-trace-id', trace.traceId)
    // The call itself is judged by whether the token is for the only server.
    session.servers = only === undefined ? caller.servers : [only]
    return {
      session,
      calls: clientCalls(calls, { exchange: client, used, session, health }),
      headers,
      own: new OwnHeaders(headers, `00-${trace.traceId}-${trace.spanId}-${trace.flags}`),
      servers: session.servers,
      only,
      config: policy.federation,
      startTimeoutMs: (server) => policy.startTimeoutMs(server),
      clock: this.#options.clock,
      health,
      scope: `${number} ${caller.credentials}`,
      logMissing: (server, reason) =>
        this.#options.limitedLogger.warn(
          { server, reason, trace_id: trace.traceId },
          'a server is missing from a merged response',
        ),
      logConflict: (uri, servers) =>
        this.#options.limitedLogger.warn(
          { uri: uri.slice(0, 256), servers, trace_id: trace.traceId },
          'several servers have a URI; the first of the policy keeps it',
        ),
      recordOwn: (message) => recordOwn(message, caller, policy, trace),
    }
  }

  #factsOf(policy: ActivePolicy): PolicyFacts {
    const known = this.#policies.get(policy) ?? {
      number: ++this.#policyCount,
      health: new ServerHealth(this.#options.clock),
    }
    this.#policies.set(policy, known)
    return known
  }
}

/** Ends a client's session, and those at the servers. */
async function endSession(request: ClientRequest): Promise<void> {
  const { session, servers } = request
  const links = await session.allLinks()
  await session.shared?.end(servers)
  const begun = links.filter(({ sessionId }) => sessionId !== undefined)
  await Promise.all(begun.map((link) => endLink(request, link)))
}

async function recordOwn(
  message: Message,
  { identity }: Caller,
  policy: ActivePolicy,
  { traceId, spanId }: ReturnType<typeof traceOf>,
): Promise<void> {
  const method = message.type === 'response' ? 'response' : message.method
  const record = resolveOptional(policy.container, services.record)
  if (record === undefined) return
  const caller = identity === undefined ? {} : { tenant: identity.tenant, principal: identity }
  const event = { traceId, causeSpanId: spanId, decision: 'allow', findings: [], ...caller } as const
  await policy.hold(() => record({ ...event, name: `federation/${method}` }))
}

function noUpstream(): never {
  throw new Error('a request to several servers has no upstream of its own')
}
