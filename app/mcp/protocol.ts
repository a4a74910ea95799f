// Names and numbers of the Model Context Protocol, revisions 2024-11-05 to 2026-07-28.
import type { JsonNumber } from '@svc/core/json'
import { isJsonObject, type JsonObject } from '@svc/core/json'

/** JSON-RPC 2.0 §5.1, and MCP (2026-07-28, "Error Codes"). */
export const rpcCodes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  /** The user refuses a request of the server (Sampling, "Error Handling"). */
  refused: -1,
  /** The MCP headers disagree with the body, or a required one is missing. */
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const

export type RpcCode = (typeof rpcCodes)[keyof typeof rpcCodes]

/** The protocol's error for a request that breaks it. */
export interface ProtocolError {
  readonly code: RpcCode
  /** The HTTP status, if the code alone does not decide it. */
  readonly status?: 400 | 406 | 415
  /** The error's `data`, which some codes require. */
  readonly data?: Readonly<Record<string, unknown>>
}

/** The first revision without sessions: each request has its version in `_meta`, repeated in headers. */
export const STATELESS_REVISION = '2026-07-28'

/** The newest revision with the `initialize` handshake. */
export const HANDSHAKE_REVISION = '2025-11-25'

/** The revisions with the handshake that the gateway speaks, oldest first. */
export const handshakeRevisions: readonly string[] = [
  '2024-11-05',
  '2025-03-26',
  '2025-06-18',
  HANDSHAKE_REVISION,
]

/** Requests that only revisions with sessions have. */
export const sessionMethods: ReadonlySet<unknown> = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
  'tasks/result',
  'tasks/list',
])

/** The extension of 2026-07-28 that has tasks (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

export const META_PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion'
export const META_SERVER_INFO = 'io.modelcontextprotocol/serverInfo'
export const META_CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
export const META_CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
export const META_LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
export const META_SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** The extension by which clients show interfaces of tools (MCP Apps), in every revision. */
export const UI_EXTENSION = 'io.modelcontextprotocol/ui'

/** The idempotency key, in place of its header. */
export const META_IDEMPOTENCY_KEY = 'svc/idempotency-key'

/** The error object of a refusal that is shown as a result. */
export const META_ERROR = 'svc/error'

/** The id of an escalation, in place of its header. */
export const META_ESCALATION_ID = 'svc/escalation-id'

/** Why the call is an emergency, in place of its header. */
export const META_EMERGENCY = 'svc/escalation-emergency'

/** Revisions are dates, so their text sorts by age; drafts and other text are not revisions. */
export function isStateless(version: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= STATELESS_REVISION
}

export type RequestId = string | number | JsonNumber

// Limits, in characters, on the names that clients and servers choose and the gateway keeps.

/** Ids, and names of tools and prompts. */
export const MAX_NAME = 1_024
export const MAX_URI = 8_192
/** A client's or server's description of itself, as JSON. */
export const MAX_DESCRIPTION = 262_144

// The gateway's description of itself, as a client and as a server.

/** The version of the package `svc-sdk`. */
const PRODUCT_VERSION = '1.0.0'

/** A name and a version, in `clientInfo` and `serverInfo`. */
export type Implementation = {
  readonly name: string
  readonly version: string
}

/** Whether a server of any revision accepts it. */
export function isImplementation(value: unknown): value is JsonObject & Implementation {
  return isJsonObject(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string'
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: PRODUCT_VERSION }
