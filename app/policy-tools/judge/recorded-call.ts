// A call as its record states it, and a call of which only the names are known. What is not known throws `Unrecorded` when
// a stage reads it.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type CallAgent,
  type CallRequest,
  type Identity,
  type KeptValues,
  type RecordedCall,
  type RequestKind,
  recordedCall,
  requestReference,
  type TrustedCaller,
  trustedCaller,
  Unrecorded,
} from '@svc/core'
import { canonicalize, type JsonObject, type JsonValue } from '@svc/core/json'
import { pathReadings, ReferenceInputError } from '@svc/core/match'
import type { CallControl } from '@svc/core/pipeline'
import { BoundedMap } from '@svc/core/store'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { recordedKind } from '@svc/plugin-audit/tools'
import { unsentCall } from './unsent-call.js'

/** Marks a pseudonym, so that the text with it is not the one that was judged. */
export const PSEUDONYM = 'hmac-sha256:'

export interface RecordedSubject {
  readonly kind: RequestKind
  readonly server: string
  readonly name: string
  readonly version: string
  readonly method: string | null
}

/** Undefined for a record that does not say what was called. */
export function recordedSubjectOf(record: SignedEnvelope): RecordedSubject | undefined {
  const { mcp_method: method = null } = record
  const [server] = splitAtVersion(record.server)
  const [name, version] = splitAtVersion(record.tool)
  // Whether the completion is of a prompt or of a resource is not recorded.
  if (method === 'completion/complete' || record.tool.includes(PSEUDONYM)) return undefined
  return { kind: recordedKind(record), server, name, version, method }
}

function splitAtVersion(text: string): [name: string, version: string] {
  const at = text.lastIndexOf('@')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** `isInPath` says whether the policy sends the tool's name in a URL path. */
export function controlOf(
  record: SignedEnvelope,
  subject: RecordedSubject,
  isInPath: boolean,
): CallControl | undefined {
  const request = requestOf(record, subject, isInPath)
  if (request === undefined) return undefined
  const { agent, receivedAt, recorded, caller } = factsOf(record)
  const call = unsentCall(request, { headers: recordedHeaders, agent, receivedAt })
  call.set(recordedCall, recorded)
  if (caller !== undefined) call.set(trustedCaller, caller)
  return call
}

/** Who makes a call of which nothing else is known. */
export interface NamingCaller {
  /** Undefined: it has no token. */
  readonly trusted: TrustedCaller | undefined
  readonly agent: CallAgent
}

/** A request of which only the names are known. Many calls can share it. */
export function namedRequest(names: NamedRequest): CallRequest {
  const request = new RecordedRequest(names, {})
  return Object.defineProperty(request, 'idempotencyKey', { get: () => missing('the idempotency key') })
}

/** A call at an unknown time. `showsForms` as in `unsentCall`. */
export function namedCall(
  request: CallRequest,
  { trusted, agent }: NamingCaller,
  showsForms?: boolean,
): CallControl {
  const forms = showsForms === undefined ? {} : { showsForms }
  const call = unsentCall(request, { headers: recordedHeaders, agent, receivedAt: 0, ...forms })
  call.set(recordedCall, { kept: undefined, isNamedOnly: true })
  if (trusted !== undefined) call.set(trustedCaller, trusted)
  return call
}

/** What a caller says of itself, of which only the node is known. */
export class NamedAgent implements CallAgent {
  constructor(readonly nodeId: string | null) {}

  get agentRef(): string | null {
    return missing('claimed.agent')
  }

  get parentRef(): string | null {
    return missing('claimed.parent')
  }

  get variables(): Record<string, unknown> | null {
    return missing('the variables of the agent')
  }

  get metadata(): Record<string, unknown> | null {
    return missing('the metadata of the agent')
  }
}

/** The facts that do not depend on the policy, because each record is judged by two policies, one after the other. */
interface RecordFacts {
  readonly record: SignedEnvelope
  readonly receivedAt: number
  readonly agent: CallAgent
  readonly recorded: RecordedCall
  readonly caller: RecordedCaller | undefined
}

let last: RecordFacts | undefined

function factsOf(record: SignedEnvelope): RecordFacts {
  if (last?.record === record) return last
  const { user, user_id, client_id } = record.principal ?? {}
  const isNamed = user !== undefined || user_id !== undefined || client_id !== undefined
  last = {
    record,
    receivedAt: Date.parse(record.ts),
    agent: new RecordedAgent(record),
    recorded: { kept: plainValues(record.kept) },
    caller: isNamed ? new RecordedCaller(record) : undefined,
  }
  return last
}

function plainValues(kept: KeptValues | undefined): KeptValues | undefined {
  if (kept === undefined) return undefined
  const isPlain = (value: unknown) => typeof value !== 'string' || !value.includes(PSEUDONYM)
  if (Object.values(kept.values).every(isPlain)) return kept
  const plain = Object.entries(kept.values).filter(([, value]) => isPlain(value))
  return { ...kept, values: Object.fromEntries(plain) }
}

function missing(...facts: string[]): never {
  throw new Unrecorded(facts)
}

/** Defines the member as it was recorded. A pseudonym does not say which name it stands for. */
function define(object: object, member: string, value: string | null | undefined, fact: string): void {
  if (value === undefined) return
  if (value?.includes(PSEUDONYM) === true) Object.defineProperty(object, member, { get: () => missing(fact) })
  else (object as Record<string, unknown>)[member] = value
}

/** The caller that the record names; its other members throw `Unrecorded`. */
export function recordedCaller(record: SignedEnvelope): TrustedCaller {
  return new RecordedCaller(record)
}

/** Stages may make objects that inherit from it and its identity, so that their getters do not depend on `this`. */
class RecordedCaller implements TrustedCaller {
  readonly identity: RecordedIdentity
  declare readonly scopes: ReadonlySet<string>

  constructor(record: SignedEnvelope) {
    this.identity = new RecordedIdentity(record)
    Object.defineProperty(this, 'scopes', { get: () => new Set(scopesOf(record)) })
  }
}

/** Records without what decided them are of a gateway that did not record scopes. */
function scopesOf({ principal, decided_by: decidedBy }: SignedEnvelope): readonly string[] {
  return principal?.scopes ?? (decidedBy === undefined ? missing('the scopes of the token') : [])
}

class RecordedIdentity implements Identity {
  readonly authenticated = true
  readonly tenant: string
  readonly roles: readonly string[]
  declare readonly user?: string
  declare readonly userId?: string
  declare readonly clientId?: string
  declare readonly client?: string
  declare readonly nodeId?: string
  declare readonly scopes: readonly string[]

  constructor(record: SignedEnvelope) {
    const { user, user_id, client_id, roles = [], node_id } = record.principal ?? {}
    this.tenant = record.tenant
    this.roles = roles
    define(this, 'user', user, "the user's name")
    define(this, 'userId', user_id, "the user's id")
    if (user === undefined) define(this, 'clientId', client_id, "the client's id")
    define(this, 'nodeId', node_id, "the token's node")
    define(this, 'client', client_id, 'caller.client')
    Object.defineProperty(this, 'scopes', { get: () => scopesOf(record) })
  }

  get subject(): string {
    return missing('caller.sub')
  }

  get issuer(): string {
    return missing("the token's issuer")
  }
}

class RecordedAgent implements CallAgent {
  readonly nodeId: string | null
  declare readonly agentRef: string | null
  readonly variables: Record<string, unknown> | null
  readonly metadata: Record<string, unknown> | null

  constructor({ nodeId = null, agentRef = null, agentVariables, agentMetadata }: SignedEnvelope) {
    this.nodeId = nodeId
    this.variables = agentVariables ?? null
    this.metadata = agentMetadata ?? null
    define(this, 'agentRef', agentRef, 'claimed.agent')
  }

  get parentRef(): string | null {
    return missing('claimed.parent')
  }
}

/** A call that was accepted has the tenant of its caller in `x-tenant`, or none. */
const recordedHeaders = new Proxy<IncomingHttpHeaders>(
  {},
  {
    get: (_headers, name) =>
      name === 'x-tenant' || name === 'authorization' ? undefined : missing(`the header ${String(name)}`),
    has: (_headers, name) => missing(`the header ${String(name)}`),
    ownKeys: () => missing('the headers'),
  },
)

/** The names of a request, which many calls share. */
export interface NamedRequest extends RecordedSubject {
  readonly reference: string
  readonly readings: readonly string[]
}

const named = new BoundedMap<string, NamedRequest | null>(10_000)

/** Undefined for names that no call can have. */
function requestOf(
  record: SignedEnvelope,
  subject: RecordedSubject,
  isInPath: boolean,
): CallRequest | undefined {
  const found = requestNames(subject, isInPath)
  return found && new RecordedRequest(found, record)
}

/** Undefined for names that no call can have. */
export function requestNames(subject: RecordedSubject, isInPath: boolean): NamedRequest | undefined {
  const { kind, server, name, version, method } = subject
  const key = `${kind}\n${server}\n${name}\n${version}\n${method ?? ''}\n${isInPath}`
  let found = named.get(key)
  if (found === undefined) {
    found = namesOf(subject, isInPath) ?? null
    named.set(key, found)
  }
  return found ?? undefined
}

function namesOf(subject: RecordedSubject, isInPath: boolean): NamedRequest | undefined {
  const { server, name, version } = subject
  try {
    const reference = requestReference(subject)
    const inPath = isInPath ? pathReadings({ server, tool: name, version }) : []
    return { ...subject, reference, readings: [reference, ...inPath] }
  } catch (error) {
    if (error instanceof ReferenceInputError) return undefined
    throw error
  }
}

class RecordedRequest implements CallRequest {
  readonly kind: RequestKind
  readonly method: string | null
  readonly server: string
  readonly name: string
  readonly version: string
  readonly reference: string
  readonly readings: readonly string[]
  readonly idempotencyKey: string | null
  declare readonly shownBy?: readonly string[]

  constructor(names: NamedRequest, { idempotency_key: key = null }: Pick<SignedEnvelope, 'idempotency_key'>) {
    this.kind = names.kind
    this.method = names.method
    this.server = names.server
    this.name = names.name
    this.version = names.version
    this.reference = names.reference
    this.readings = names.readings
    this.idempotencyKey = key
    // Resources of user interfaces have tools that show them.
    if (names.kind === 'resource' && names.name.startsWith('ui:')) {
      Object.defineProperty(this, 'shownBy', { get: () => missing('the tools whose user interface it is') })
    }
  }

  get args(): JsonValue {
    return this.kind === 'resource' ? { uri: this.name } : missing('the arguments')
  }

  get canonicalArgs(): string {
    return canonicalize(this.args)
  }

  get params(): JsonObject {
    return missing('the params')
  }

  get canonicalParams(): string {
    return missing('the params')
  }

  get bytes(): number {
    return missing('the size of the request')
  }
}
