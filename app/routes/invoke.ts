// The invoke protocol: plain HTTP in front of plain tool servers. `/a2a/invoke` is the same call in one body.
import type { IncomingMessage } from 'node:http'
import { type CallRequest, type CallTarget, Refusal } from '@svc/core'
import { canonicalize, type JsonObject, type JsonValue, messageOf, parseJson } from '@svc/core/json'
import { formatReference, formatToolSegment, parseNameSegment, parseToolSegment } from '@svc/core/match'
import { readBody } from '../http/body.js'
import { idempotencyKeyOf } from '../http/call-headers.js'

/** A tool as the invoke protocol names it. */
export interface ToolName {
  readonly server: string
  readonly tool: string
  readonly version: string
}

/** Reads `POST /mcp/<server>/<tool>@<version>`: the body is the tool's arguments. Rejects with `Refusal`. */
export async function readInvoke(
  message: IncomingMessage,
  maxBytes: number,
  name: ToolName,
): Promise<CallRequest> {
  const idempotencyKey = idempotencyKeyOf(message.headers)
  const bytes = await readBody(message, maxBytes)
  return requestOf(name, jsonObject(bytes), bytes.byteLength, idempotencyKey)
}

/**
 * Reads `POST /a2a/invoke`: `{ "to": server, "toolAtVersion": "<tool>@<version>", "args": object }`.
 * Fills `target` in as soon as it is known. Rejects with `Refusal`.
 */
export async function readA2a(
  message: IncomingMessage,
  maxBytes: number,
  target: CallTarget,
): Promise<CallRequest> {
  const idempotencyKey = idempotencyKeyOf(message.headers)
  const bytes = await readBody(message, maxBytes)
  const { to, toolAtVersion, args, ...rest } = jsonObject(bytes)
  const [unknown] = Object.keys(rest)
  if (
    unknown !== undefined ||
    typeof to !== 'string' ||
    typeof toolAtVersion !== 'string' ||
    !isObject(args)
  ) {
    throw new Refusal(
      'BAD_REQUEST',
      'Expected {"to": string, "toolAtVersion": "<tool>@<version>", "args": object}.',
    )
  }
  const name = named(to, toolAtVersion)
  target.server = name.server
  target.serverVersion = name.version
  target.tool = name.tool
  target.toolVersion = name.version
  return requestOf(name, args, bytes.byteLength, idempotencyKey)
}

function named(to: string, toolAtVersion: string): ToolName {
  try {
    return { server: parseNameSegment(to), ...parseToolSegment(toolAtVersion) }
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `Bad name: ${messageOf(cause)}`, { cause })
  }
}

function requestOf(
  name: ToolName,
  args: JsonObject,
  bytes: number,
  idempotencyKey: string | null,
): CallRequest {
  return {
    kind: 'tool',
    method: null,
    server: name.server,
    name: name.tool,
    version: name.version,
    reference: formatReference(name),
    args,
    canonicalArgs: canonicalize(args),
    bytes,
    idempotencyKey,
  }
}

/** Path of the tool below its target (decisions.md §2 "invoke protocol"). */
export function invokePath(target: URL, request: CallRequest): string {
  const base = target.pathname.endsWith('/') ? target.pathname.slice(0, -1) : target.pathname
  return `${base}/invoke/${formatToolSegment({ tool: request.name, version: request.version })}${target.search}`
}

function jsonObject(bytes: Uint8Array): JsonObject {
  let value: JsonValue
  try {
    value = parseJson(bytes)
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `The body is refused: ${messageOf(cause)}`, { cause })
  }
  if (!isObject(value)) throw new Refusal('BAD_REQUEST', 'The body is not a JSON object.')
  return value
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
