// Sends a raw request over HTTP and describes the response as a client sees it.
import { type IncomingMessage, request } from 'node:http'
import { JsonNumber, type JsonValue } from '@svc/core/json'

export interface RawRequest {
  readonly method?: string
  /** Headers in place of the usual ones; null leaves one out. */
  readonly headers?: Readonly<Record<string, string | null>>
  readonly body?: string | Buffer
  /** The part that is read of a response without an end: its head, or also its first event. */
  readonly upTo?: 'head' | 'first event'
}

export interface HttpResponse {
  /** The status, and each message's id and result or error code. */
  readonly brief: string
  /** The same with the results. */
  readonly whole: string
  readonly sessionId: string | undefined
}

const usual = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }

export async function send(
  url: string,
  { method = 'POST', headers = {}, body, upTo }: RawRequest,
): Promise<HttpResponse> {
  const all = Object.entries({ ...usual, ...headers }).filter(
    (header): header is [string, string] => header[1] !== null,
  )
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    // Each request has its own connection, because the server may just be closing a reused one.
    const sending = request(url, { agent: false, method, headers: Object.fromEntries(all) }, resolve)
    sending.once('error', reject)
    sending.end(body)
  })
  const messages = messagesIn(upTo === 'head' ? '' : await textOf(response, upTo))
  response.destroy()
  const { statusCode: status, headers: fields } = response
  const sessionId = fields['mcp-session-id']
  return {
    brief: `${status} ${messages.map(summary).join(', ')}`.trim(),
    whole: `${status} ${messages.map(content).join(', ')}`,
    sessionId: typeof sessionId === 'string' ? sessionId : undefined,
  }
}

async function textOf(response: IncomingMessage, upTo: RawRequest['upTo']): Promise<string> {
  let text = ''
  for await (const piece of response.setEncoding('utf8')) {
    text += piece
    if (upTo === 'first event' && /^data: .+\n\n/m.test(text)) break
  }
  return text
}

/** Text that is not JSON, such as an HTML page, is a message too. */
function messagesIn(text: string): readonly JsonValue[] {
  if (text.trim() === '') return []
  const events = [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => data)
  return (events.length === 0 ? [text] : events).map((json): JsonValue => {
    try {
      return JSON.parse(json)
    } catch (error) {
      if (error instanceof SyntaxError) return 'no JSON'
      throw error
    }
  })
}

function summary(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(summary).join(', ')}]`
  if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return String(value)
  const { jsonrpc, id, method, result, error } = value
  if (jsonrpc === undefined) return 'another object'
  if (method !== undefined) return String(method)
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return `${JSON.stringify(id ?? null)} ${result === undefined ? code : 'result'}`
}

/** Removes the message of an error, which the gateway writes if it refuses. */
function content(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(content).join(', ')}]`
  const isError = typeof value === 'object' && value !== null && 'error' in value
  return isError ? summary(value) : JSON.stringify(value)
}
