// The invoke protocol: plain HTTP in front of plain tool servers. `/a2a/invoke` is the same call in one body.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import {
  after,
  type CallRequest,
  type CallTarget,
  callRequest,
  isPending,
  type MaybePromise,
  type Outcome,
  pathReferences,
  Refusal,
  type ToolReferences,
} from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { parseNameSegment, parseToolSegment, ReferenceInputError } from '@svc/core/match'
import { type CallControl, refineTarget } from '@svc/core/pipeline'
import { jsonObjectIn, readBody } from '../http/body.js'
import { idempotencyKeyOf } from '../http/call-headers.js'
import { refusalResponse } from '../http/response.js'
import type { McpProxy } from '../mcp/proxy.js'
import { reportVersionMismatch } from '../mcp/tool-client.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { dispatchInvoke } from '../upstream/invoke.js'
import { upstreamTarget } from '../upstream/send.js'
import { callTargetOf, type ToolName, unknownTarget } from './endpoints.js'

/** A tool as the invoke protocol names it, with what all calls of it share. */
export interface NamedTool extends ToolName {
  readonly target: CallTarget
  /** The tool's segment in the path to the upstream. */
  readonly segment: string
  /** Set by the first request that is sent under its own version. */
  references: ToolReferences | undefined
}

interface ToolEndpointOptions {
  readonly maxBodyBytes: number
  readonly mcp: McpProxy
  readonly upstream: UpstreamDispatcher
}

/** `POST /mcp/<server>/<tool>@<version>`, whose body is the tool's arguments; or `POST /a2a/invoke`, whose body names the tool. */
export class ToolEndpoint {
  readonly protocol: 'invoke' | 'a2a'
  readonly target: CallTarget
  readonly headers: IncomingHttpHeaders
  readonly encode = refusalResponse
  #message: IncomingMessage
  #tool: NamedTool | undefined
  #policy: ActivePolicy
  #options: ToolEndpointOptions

  /** `tool` is that of the path. */
  constructor(
    message: IncomingMessage,
    tool: NamedTool | undefined,
    policy: ActivePolicy,
    options: ToolEndpointOptions,
  ) {
    this.protocol = tool === undefined ? 'a2a' : 'invoke'
    this.target = tool === undefined ? unknownTarget : tool.target
    this.headers = message.headers
    this.#message = message
    this.#tool = tool
    this.#policy = policy
    this.#options = options
  }

  /** Throws or rejects with `Refusal`. */
  read(call: CallControl): Promise<CallRequest> {
    const named = this.#tool
    // A call of a server that is not configured is refused before its body is read.
    if (named !== undefined) this.#policy.target(named.server)
    const idempotencyKey = idempotencyKeyOf(this.headers)
    return readBody(this.#message, this.#options.maxBodyBytes, (bytes) => {
      const body = jsonObjectIn(bytes)
      if (named !== undefined) return this.#request(call, named, body, bytes.byteLength, idempotencyKey)
      const { tool, args } = a2aCallIn(body)
      call[refineTarget](tool.target)
      return this.#request(call, tool, args, bytes.byteLength, idempotencyKey)
    })
  }

  /** An MCP server's tools have the version that the server gives itself. */
  #request(
    call: CallControl,
    tool: NamedTool,
    args: JsonObject,
    bytes: number,
    idempotencyKey: string | null,
  ): MaybePromise<CallRequest> {
    const { server } = tool
    const { url, isMcp } = this.#policy.target(server)
    if (!isMcp) {
      tool.references ??= referencesOf(tool)
      return requestOf(tool, args, bytes, idempotencyKey, tool.references)
    }
    const { mcp } = this.#options
    return after(
      mcp.versionOf(url, () => this.#policy.ownCredential(server)),
      (version) => {
        call[refineTarget]({ serverVersion: version, toolVersion: version })
        reportVersionMismatch(call, tool, version)
        const known = requestOf({ ...tool, version }, args, bytes, idempotencyKey)
        const refreshing = mcp.refreshAnnotations(url, known)
        return refreshing === undefined ? known : refreshing.then(() => known)
      },
    )
  }

  dispatch(call: CallControl): MaybePromise<Outcome> {
    const request = call.request()
    if (isPending(request)) return request.then(() => this.dispatch(call))
    const { mcp, upstream } = this.#options
    const target = this.#policy.target(request.server)
    call.set(upstreamTarget, target)
    if (target.isMcp) return mcp.dispatchTool(call, target.url)
    const { maxResponseBytes } = this.#policy
    const segment = this.#tool?.segment ?? segmentOf({ tool: request.name, version: request.version })
    return dispatchInvoke(call, request, { target, segment, upstream, maxResponseBytes })
  }
}

/** Throws `Refusal` for names that no reference can have. */
function requestOf(
  { server, tool: name, version }: ToolName,
  args: JsonObject,
  bytes: number,
  idempotencyKey: string | null,
  references?: ToolReferences,
): CallRequest {
  try {
    return callRequest({
      kind: 'tool',
      method: null,
      server,
      name,
      version,
      args,
      bytes,
      idempotencyKey,
      references,
    })
  } catch (error) {
    throw badName(error)
  }
}

/** `{ "to": server, "toolAtVersion": "<tool>@<version>", "args": object }`. Throws `Refusal`. */
function a2aCallIn(body: JsonObject): { readonly tool: NamedTool; readonly args: JsonObject } {
  const { to, toolAtVersion, args, ...rest } = body
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
  try {
    return { tool: namedTool({ server: parseNameSegment(to), ...parseToolSegment(toolAtVersion) }), args }
  } catch (error) {
    throw badName(error)
  }
}

function badName(cause: unknown): unknown {
  if (!(cause instanceof ReferenceInputError)) return cause
  return new Refusal('BAD_REQUEST', `Bad name: ${cause.message}`, { cause })
}

export function namedTool(name: ToolName): NamedTool {
  return { ...name, target: callTargetOf(name), segment: segmentOf(name), references: undefined }
}

/** The names have been checked, so they can be encoded. */
function segmentOf({ tool, version }: Pick<ToolName, 'tool' | 'version'>): string {
  return `${encodeURIComponent(tool)}@${encodeURIComponent(version)}`
}

/** Throws `Refusal` for names that no reference can have. */
function referencesOf(name: ToolName): ToolReferences {
  try {
    return pathReferences(name)
  } catch (error) {
    throw badName(error)
  }
}
