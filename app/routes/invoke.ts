// The invoke protocol: plain HTTP in front of plain tool servers. `/a2a/invoke` is the same call in one body.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { parseNameSegment, parseToolSegment, ReferenceInputError } from '@svc/core/match'
import { jsonObjectIn, readBody } from '../http/body.js'
import { idempotencyKeyOf } from '../http/call-headers.js'

/** A tool as the invoke protocol names it. */
export interface ToolName {
  readonly server: string
  readonly tool: string
  readonly version: string
}

/** A call of a tool as its caller wrote it. */
export interface Invocation extends ToolName {
  readonly args: JsonObject
  /** Size in bytes of the body. */
  readonly bytes: number
  readonly idempotencyKey: string | null
}

/** Reads `POST /mcp/<server>/<tool>@<version>`: the body is the tool's arguments. Throws or rejects with `Refusal`. */
export function readInvoke(
  message: IncomingMessage,
  maxBytes: number,
  { server, tool, version }: ToolName,
): Promise<Invocation> {
  const idempotencyKey = idempotencyKeyOf(message.headers)
  return readBody(message, maxBytes).then((bytes) => {
    return { server, tool, version, args: jsonObjectIn(bytes), bytes: bytes.byteLength, idempotencyKey }
  })
}

/**
 * Reads `POST /a2a/invoke`: `{ "to": server, "toolAtVersion": "<tool>@<version>", "args": object }`.
 * Rejects with `Refusal`.
 */
export async function readA2a(message: IncomingMessage, maxBytes: number): Promise<Invocation> {
  const idempotencyKey = idempotencyKeyOf(message.headers)
  const bytes = await readBody(message, maxBytes)
  const { to, toolAtVersion, args, ...rest } = jsonObjectIn(bytes)
  const [unknown] = Object.keys(rest)
  if (
    unknown !== undefined ||
    typeof to !== 'string' ||
    typeof toolAtVersion !== 'string' ||
    !isJsonObject(args)
  ) {
    throw new Refusal(
      'BAD_REQUEST',
      'Expected {"to": string, "toolAtVersion": "<tool>@<version>", "args": object}.',
    )
  }
  return { ...toolName(to, toolAtVersion), args, bytes: bytes.byteLength, idempotencyKey }
}

/** The result of `read`. Throws `Refusal` for names that `read` refuses. */
export function validName<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof ReferenceInputError)) throw cause
    throw new Refusal('BAD_REQUEST', `Bad name: ${cause.message}`, { cause })
  }
}

function toolName(to: string, toolAtVersion: string): ToolName {
  return validName(() => ({ server: parseNameSegment(to), ...parseToolSegment(toolAtVersion) }))
}
