// Binds MCP sessions and tasks to the caller that began them. The client's id of a session seals the server's own id, the caller
// and what the client has declared, so that another caller cannot use it (MCP, Security Best Practices, "Session Hijacking"),
// and any gateway with the key knows the session.
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
import { canonicalizeExact, parseJsonText, sha256Hex, stringifyJson } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import type { RpcRequest } from './message.js'
import { MAX_NAME } from './protocol.js'

const tagLength = 22
/** Begins the id of a session with one server. */
const boundPrefix = 'svc.'
/** Time for which an id is valid, in milliseconds: clients use one for weeks, and many do not begin a new session after 404. */
export const sessionLifetimeMs = 2_592_000_000

/** The content of the sealed id of a client's session with one server. */
interface SealedSession {
  readonly server: string
  readonly principal: string
  /** The server's own id; of a server without sessions, one of the gateway's. */
  readonly id: string
  /** Whether the server has no sessions: then the id only says what the client has declared. */
  readonly isOwn: boolean
  /** The modes of elicitation that the client has declared. */
  readonly modes: string
  /** Milliseconds since the epoch. */
  readonly until: number
}

/** The session of a request. */
export interface SessionOfRequest {
  /** The id that the client has. */
  readonly token: string
  /** Undefined for an id that no gateway with the key has sealed, or that has expired. */
  readonly sealed: SealedSession | undefined
}

/** Begins the id of a session whose sessions with servers the gateway keeps; the other ids have a dot. */
export const sealedPrefix = 'svc-'
const sealedId = /^svc-[A-Za-z0-9_-]+$/

export function isSealedSession(id: unknown): boolean {
  return typeof id === 'string' && sealedId.test(id)
}

export function isOwnSession({ session }: { readonly session?: SessionOfRequest | undefined }): boolean {
  return session?.sealed?.isOwn === true
}

/** The id by which the server knows the session of a request; undefined without one. */
export function serverSessionId(request: {
  readonly headers: IncomingHttpHeaders
  readonly session?: SessionOfRequest | undefined
}): IncomingHttpHeaders[string] {
  return isOwnSession(request) ? undefined : request.headers[SESSION_ID_HEADER]
}

/** Whether the session is one of the caller's with the server of the call. */
export function isOfCaller(call: Call, { sealed }: SessionOfRequest): boolean {
  return sealed?.server === call.target.server && sealed.principal === principalOf(call)
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

/** Sessions that are remembered, because each of their requests has the id. */
const MAX_REMEMBERED = 10_000

export class SessionBinding {
  #key: string
  #derived = new Map<string, Buffer>()
  #remembered = new BoundedMap<string, SealedSession>(MAX_REMEMBERED)
  #clock: Pick<Clock, 'now'>
  #ids: TextSealer

  /** `key` is at least 32 random characters, the same in all gateways that serve one session. */
  constructor(key: string, clock: Pick<Clock, 'now'>) {
    this.#key = key
    this.#clock = clock
    this.#ids = this.sealer('mcp session ids')
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
  states<State extends object>(purpose: string): RequestStates<State> {
    return new RequestStates(this.sealer(purpose), this.#clock)
  }

  /** The session of the id that a client sends. */
  open(token: string): SessionOfRequest {
    const known = this.#remembered.get(token)
    if (known !== undefined) return { token, sealed: known.until > this.#clock.now() ? known : undefined }
    const sealed = token.startsWith(boundPrefix) ? this.#opened(token) : undefined
    if (sealed !== undefined && token.length <= MAX_NAME) this.#remembered.set(token, sealed)
    return { token, sealed }
  }

  #opened(token: string): SealedSession | undefined {
    const text = this.#ids.open(token.slice(boundPrefix.length), Buffer.from(boundPrefix))
    if (text === undefined) return undefined
    // A gateway has written it, because it could be opened.
    const sealed = JSON.parse(text) as SealedSession
    return sealed.until > this.#clock.now() ? sealed : undefined
  }

  /** The client's id of a session with the server of the call, whose id is `id`; undefined if the server has no sessions. */
  bind(call: Call, id: string | undefined, modes: string): string {
    const sealed: SealedSession = {
      server: call.target.server,
      principal: principalOf(call),
      id: id ?? randomUUID(),
      isOwn: id === undefined,
      modes,
      until: this.#clock.now() + sessionLifetimeMs,
    }
    return `${boundPrefix}${this.#ids.seal(JSON.stringify(sealed), Buffer.from(boundPrefix))}`
  }

  bindTask(call: Call, tool: string, id: string): BoundTask {
    return { tag: this.#tagOf(call, 'task', tool, id), server: call.target.server, tool, id }
  }

  isBoundTask(call: Call, { tag, server, tool, id }: BoundTask): boolean {
    return server === call.target.server && isEqual(tag, this.#tagOf(call, 'task', tool, id))
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
  #clock: Pick<Clock, 'now'>

  constructor(sealer: TextSealer, clock: Pick<Clock, 'now'>) {
    this.#sealer = sealer
    this.#clock = clock
  }

  seal(call: Call, request: StatefulRequest, state: State): string {
    const text = stringifyJson({ state, until: this.#clock.now() + stateTtlMs })
    return this.#sealer.seal(text, boundTo(call, request))
  }

  /** Undefined for everything but a state that was sealed for this caller and request, and has not expired. */
  open(call: Call, request: StatefulRequest, sealed: unknown): State | undefined {
    const text = typeof sealed === 'string' ? this.#sealer.open(sealed, boundTo(call, request)) : undefined
    if (text === undefined) return undefined
    // A gateway has written it, because the tag fits.
    const { until, state } = parseJsonText(text) as { readonly until: number; readonly state: State }
    return this.#clock.now() < until ? state : undefined
  }
}

/** The scope of a state: the caller, the server, the method, and a digest of its params, such as name and arguments. */
function boundTo(call: Call, { method, params }: StatefulRequest): Buffer {
  const kept = Object.fromEntries(Object.entries(params).filter(([name]) => !ofRound.has(name)))
  return Buffer.from(
    JSON.stringify([callerKey(call), call.target.server, method, sha256Hex(canonicalizeExact(kept).text)]),
  )
}
