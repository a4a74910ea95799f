// The lines between the worker that has the processes of commands and the others.
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { type ErrorCode, isRefusal, Refusal, type ResponseHeaders, type Sent } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { BudgetUser } from '../budget/budget.js'
import { readInTurns } from '../mcp/rpc-response.js'
import {
  hasMessage,
  type McpEvent,
  type McpRequest,
  type McpResponse,
  type StreamLimits,
  WholeResponse,
} from '../mcp/servers.js'
import { isUpstreamError, UpstreamError } from '../upstream/response.js'
import { responseTooLarge } from '../upstream/response-limit.js'

export interface RequestLine
  extends Pick<
    McpRequest,
    'method' | 'headers' | 'message' | 'text' | 'inputFor' | 'eventsMayPause' | 'responseTimeoutMs'
  > {
  readonly target: string
  readonly caller?: BudgetUser
}

interface ErrorLine {
  readonly kind: 'error'
  readonly message: string
  /** Set for a refusal. */
  readonly code?: ErrorCode
  /** Set for an error of the server. */
  readonly sent?: Sent
}

interface HeadLine {
  readonly kind: 'whole' | 'events'
  readonly status: number
  readonly headers: ResponseHeaders
  /** The body, in Base64, if it is whole. */
  readonly body?: string
}

export type ResponseLine =
  | { readonly kind: 'sent' | 'head' | 'end' }
  | { readonly kind: 'event'; readonly text: string }
  | HeadLine
  | ErrorLine

export function requestLine(target: URL, request: McpRequest): string {
  const { method, headers, message, text, inputFor, eventsMayPause, responseTimeoutMs, caller } = request
  const line: RequestLine = {
    target: target.href,
    method,
    headers,
    ...(message === undefined ? {} : { message }),
    ...(text === undefined ? {} : { text }),
    ...(inputFor === undefined ? {} : { inputFor }),
    ...(eventsMayPause === undefined ? {} : { eventsMayPause }),
    ...(responseTimeoutMs === undefined ? {} : { responseTimeoutMs }),
    ...(caller === undefined ? {} : { caller: caller() }),
  }
  return `${JSON.stringify(line)}\n`
}

export function errorLine(error: unknown): string {
  const line: ErrorLine = {
    kind: 'error',
    message: messageOf(error),
    ...(isRefusal(error) ? { code: error.code } : {}),
    ...(isUpstreamError(error) ? { sent: error.sent } : {}),
  }
  return `${JSON.stringify(line)}\n`
}

export function errorIn({ message, code, sent }: ErrorLine): Error {
  if (code !== undefined) return new Refusal(code, message)
  return sent === undefined ? new Error(message) : new UpstreamError(message, sent)
}

/** Writes as fast as the other worker reads. */
export async function writeResponse(response: McpResponse, socket: Socket, maxBytes: number): Promise<void> {
  const { status, headers } = response
  const write = async (line: ResponseLine): Promise<void> => {
    if (!socket.write(`${JSON.stringify(line)}\n`) && !socket.destroyed) {
      await Promise.race([once(socket, 'drain'), once(socket, 'close')])
    }
  }
  if (response.form !== 'events') {
    const body = Buffer.from(await response.bytes(maxBytes)).toString('base64')
    return write({ kind: 'whole', status, headers, body })
  }
  try {
    await write({ kind: 'events', status, headers })
    for await (const event of response.events({})) {
      if (socket.destroyed) return
      if (hasMessage(event)) await write({ kind: 'event', text: event.text })
    }
    await write({ kind: 'end' })
  } finally {
    await response.discard()
  }
}

export function responseOnLines(
  head: ResponseLine,
  lines: AsyncGenerator<ResponseLine>,
  socket: Socket,
): McpResponse {
  if (head.kind === 'whole') {
    socket.destroy()
    return new WholeResponse(head.status, head.headers, Buffer.from(head.body ?? '', 'base64'))
  }
  if (head.kind !== 'events') throw new Error(`a worker has sent ${head.kind} in place of a response`)
  const { status, headers } = head
  const discard = async (): Promise<void> => void socket.destroy()
  return { form: 'events', status, headers, discard, events: (limits) => eventsFrom(lines, socket, limits) }
}

async function* eventsFrom(
  lines: AsyncGenerator<ResponseLine>,
  socket: Socket,
  { maxBytes = Number.POSITIVE_INFINITY }: StreamLimits,
): AsyncGenerator<McpEvent> {
  let read = 0
  try {
    for await (const line of lines) {
      if (line.kind === 'end') return
      if (line.kind === 'error') throw errorIn(line)
      if (line.kind !== 'event') continue
      read += Buffer.byteLength(line.text)
      if (read > maxBytes) throw responseTooLarge(maxBytes)
      yield { message: await readInTurns(line.text), text: line.text }
    }
    throw new UpstreamError('The worker of the MCP server has ended.', 'unknown')
  } finally {
    socket.destroy()
  }
}
