// Binds MCP sessions to the caller that began them. The client's session id is a tag and the server's own id. The tag is an
// HMAC of the id and the caller, so that another caller cannot use the session id (MCP, Security Best Practices, "Session
// Hijacking").
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  randomUUID,
  timingSafeEqual,
} from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Call, type Clock, identity, principalKeyOf } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import type { RpcRequest } from './message.js'
import { MAX_NAME } from './protocol.js'

/** A tag of 128 bits in base64url, what the client declared of elicitation, a dot, the server's id. */
const boundId = /^([A-Za-z0-9_-]{22}(?:~[fu]{1,2})?)\.(.+)$/s
const tagLength = 22
/** The tag of a session that is the gateway's own, because its server has none: it carries what the client declared, and nothing else. */
const ownTag = 'svc~'
const ownId = /^(svc~[fu]{1,2})\.([0-9a-f-]{36})$/

/**
 * The headers with the server's own session id in place of the client's, and the tag of the client's id. The tag is empty if
 * the id had none, and undefined if the request has no session.
 */
export function splitSessionId(headers: IncomingHttpHeaders): SessionOfRequest {
  const given = headers[SESSION_ID_HEADER]
  if (given === undefined) return { headers, sessionTag: undefined }
  const [, sessionTag, id] = (typeof given === 'string' && (ownId.exec(given) ?? boundId.exec(given))) || []
  if (sessionTag === undefined || id === undefined) return { headers, sessionTag: '' }
  return { headers: { ...headers, [SESSION_ID_HEADER]: id }, sessionTag }
}

/**
 * The id of a session for a client that can be asked about its calls (`modes`), at a server without sessions. Any gateway takes
 * it and keeps nothing for it. It is bound to nobody: what is kept of calls is kept by caller, and the id says only what the
 * client may declare anyway.
 */
export function ownSessionId(modes: string): string {
  return boundSessionId(`${ownTag}${modes}`, randomUUID())
}

/** Begins the id of a session whose sessions with servers the gateway keeps; the other ids have a dot. */
export const sealedPrefix = 'svc-'
const sealedId = /^svc-[A-Za-z0-9_-]+$/

export function isSealedSession(id: unknown): boolean {
  return typeof id === 'string' && sealedId.test(id)
}

interface SessionOfRequest {
  readonly headers: IncomingHttpHeaders
  readonly sessionTag: string | undefined
}

export function isOwnSession({ sessionTag }: Pick<SessionOfRequest, 'sessionTag'>): boolean {
  return sessionTag?.startsWith(ownTag) === true
}

/** The id by which the server knows the session of a request; undefined without one. */
export function serverSessionId(request: SessionOfRequest): IncomingHttpHeaders[string] {
  return isOwnSession(request) ? undefined : request.headers[SESSION_ID_HEADER]
}

/** The client's id of a session. */
export function boundSessionId(tag: string, id: string): string {
  return `${tag}.${id}`
}

/** A task of a tool call, with the tag that came with its id. */
export interface BoundTask {
  readonly tag: string
  readonly server: string
  readonly tool: string
  /** The server's own id. */
  readonly id: string
}

/** The client's id of a task: a tag, the server and the tool in base64url, the server's id. */
export function clientTaskId({ tag, server, tool, id }: BoundTask): string {
  const [encodedServer, encodedTool] = [server, tool].map((name) => Buffer.from(name).toString('base64url'))
  return `${tag}.${encodedServer}.${encodedTool}.${id}`
}

const clientTaskForm = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.(.+)$/s

/** The task of a client's id, whose tag is not checked; undefined for an id of another form. */
export function taskOfClientId(given: string): BoundTask | undefined {
  const [, tag, server, tool, id] = clientTaskForm.exec(given) ?? []
  if (tag === undefined || server === undefined || tool === undefined || id === undefined) return undefined
  return { tag, server: decoded(server), tool: decoded(tool), id }
}

function decoded(name: string): string {
  return Buffer.from(name, 'base64url').toString()
}

/** The values from which a tag was computed. */
interface BoundSession {
  readonly server: string
  readonly principal: string
  readonly id: string
}

/** Sessions whose tags are remembered, because each of their requests has one. */
const MAX_REMEMBERED = 10_000

export class SessionBinding {
  #key: string
  #derived = new Map<string, Buffer>()
  #remembered = new BoundedMap<string, BoundSession>(MAX_REMEMBERED)

  /** `key` is at least 32 random characters, the same in all gateways that serve one session. */
  constructor(key: string) {
    this.#key = key
  }

  /** A key of 32 bytes for another purpose, the same at all gateways that have this key. */
  deriveKey(purpose: string): Buffer {
    const derived = this.#derived.get(purpose) ?? Buffer.from(hkdfSync('sha256', this.#key, '', purpose, 32))
    this.#derived.set(purpose, derived)
    return derived
  }

  /** Seals and opens the texts of one purpose. */
  sealer(purpose: string): TextSealer {
    return new TextSealer(this.deriveKey(purpose))
  }

  /** Seals and opens the states of one purpose. */
  states<State extends object>(purpose: string, clock: Clock): RequestStates<State> {
    return new RequestStates(this.sealer(purpose), clock)
  }

  /** Whether `tag` came with this id in a response to the same caller. */
  isBound(call: Call, id: string, tag: string): boolean {
    const { server } = call.target
    const principal = principalOf(call)
    const bound = this.#remembered.get(tag)
    if (bound?.server === server && bound.principal === principal && bound.id === id) return true
    if (!isEqual(tag, this.#sessionTag(call, id, tag.slice(tagLength + 1)))) return false
    if (id.length <= MAX_NAME) this.#remembered.set(tag, { server, principal, id })
    return true
  }

  /** The client's id of the session; `modes` are kept in it. */
  bind(call: Call, id: string, modes = ''): string {
    return boundSessionId(this.#sessionTag(call, id, modes), id)
  }

  bindTask(call: Call, tool: string, id: string): BoundTask {
    return { tag: this.#tagOf(call, 'task', tool, id), server: call.target.server, tool, id }
  }

  isBoundTask(call: Call, { tag, server, tool, id }: BoundTask): boolean {
    return server === call.target.server && isEqual(tag, this.#tagOf(call, 'task', tool, id))
  }

  #sessionTag(call: Call, id: string, modes: string): string {
    return modes === '' ? this.#tagOf(call, id) : `${this.#tagOf(call, id, modes)}~${modes}`
  }

  #tagOf(call: Call, ...parts: readonly string[]): string {
    const text = JSON.stringify([call.target.server, principalOf(call), ...parts])
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, tagLength)
  }
}

function isEqual(tag: string, other: string): boolean {
  const expected = Buffer.from(other)
  const given = Buffer.from(tag)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function principalOf(call: Call): string {
  return principalKeyOf(call.get(identity) ?? anonymous)
}

const anonymous = { tenant: '', authenticated: false }

const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Seals texts that clients keep for the gateways: nobody else can read or make one, or use it in another scope. */
export class TextSealer {
  #key: Buffer

  /** `key` has 32 bytes, the same at all gateways that serve one client. */
  constructor(key: Buffer) {
    this.#key = key
  }

  /** Returns base64url. */
  seal(text: string, scope: Buffer): string {
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv(algorithm, this.#key, nonce).setAAD(scope)
    const parts = [nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]
    return Buffer.concat(parts).toString('base64url')
  }

  /** Undefined for everything but a text that was sealed for this scope. */
  open(sealed: string, scope: Buffer): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url')
    // The decoder skips what is not base64url.
    if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== sealed) return undefined
    const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, nonceBytes))
      .setAAD(scope)
      .setAuthTag(bytes.subarray(-tagBytes))
    try {
      return (
        decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
      )
    } catch {
      // The only error is that of a tag that does not fit.
      return undefined
    }
  }
}

// Seals a `requestState` (2026-07-28): the client gets ciphertext that only the same caller can send back, to the same server,
// in the same request, at any gateway of the deployment.

/** Time that a client has to send a state back, in milliseconds; a person may have to respond first. */
export const stateTtlMs = 3_600_000

type StatefulRequest = Pick<RpcRequest, 'method' | 'params'>

/** The params by which a request is repeated, which differ between its rounds. */
const ofRound: ReadonlySet<string> = new Set(['requestState', 'inputResponses', '_meta'])

/** `State` survives JSON. */
export class RequestStates<State extends object> {
  #sealer: TextSealer
  #clock: Clock

  constructor(sealer: TextSealer, clock: Clock) {
    this.#sealer = sealer
    this.#clock = clock
  }

  seal(call: Call, request: StatefulRequest, state: State): string {
    const text = JSON.stringify({ state, until: this.#clock.now() + stateTtlMs })
    return this.#sealer.seal(text, boundTo(call, request))
  }

  /** Undefined for everything but a state that was sealed for this caller and request, and has not expired. */
  open(call: Call, request: StatefulRequest, sealed: unknown): State | undefined {
    const text = typeof sealed === 'string' ? this.#sealer.open(sealed, boundTo(call, request)) : undefined
    if (text === undefined) return undefined
    // A gateway has written it, because the tag fits.
    const { until, state } = JSON.parse(text) as { readonly until: number; readonly state: State }
    return this.#clock.now() < until ? state : undefined
  }
}

/** The scope of a state: the caller, the server, the method, and a digest of its params, such as name and arguments. */
function boundTo(call: Call, { method, params }: StatefulRequest): Buffer {
  const kept = Object.fromEntries(Object.entries(params).filter(([name]) => !ofRound.has(name)))
  return Buffer.from(
    JSON.stringify([callerKey(call), call.target.server, method, sha256Hex(canonicalize(kept))]),
  )
}
