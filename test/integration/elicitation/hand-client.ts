// Clients that do nothing by themselves: the test reads each message and writes each response.
import { EventEmitter, on, once } from 'node:events'
import { lastMessage, postStateless } from '../../support/mcp-post.js'
import { bothModes, type Elicited } from './rig.js'

interface Message {
  readonly id?: string
  readonly method?: string
  readonly params: Elicited
  readonly result?: { readonly content?: readonly { readonly text: string }[] }
  readonly error?: RpcError
}

interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: { readonly trace_id?: string; readonly escalation_id?: string }
}

export interface HandCall {
  readonly id: number
  readonly messages: readonly Message[]
  /** Resolves when the response has ended. */
  readonly ended: Promise<void>
  /** The request or notification of this method. */
  request(method: string): Promise<Message>
  /** The JSON-RPC response. */
  response(): Promise<Message>
  /** The message that follows the first `count`; undefined if the response has ended before. */
  after(count: number): Promise<Message | undefined>
  /** Closes the connection. */
  leave(): void
}

export interface HandClient {
  readonly sessionId: string
  /** `id` is that of the request, by default a new one. */
  call(name: string, args: object, meta?: object, id?: number): Promise<HandCall>
  /** Ends the session. */
  end(): Promise<number>
  /** `at` is the URL of another gateway. */
  post(message: object, sessionId?: string, at?: string): Promise<Response>
}

export async function startHandClient(
  url: string,
  more: Record<string, string>,
  capabilities: object,
  revision = '2025-11-25',
): Promise<HandClient> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': revision,
    ...more,
  }
  const send = (
    message: object,
    session: Record<string, string>,
    signal?: AbortSignal,
    at = url,
  ): Promise<Response> =>
    fetch(at, {
      method: 'POST',
      headers: { ...headers, ...session },
      body: JSON.stringify(message),
      signal: signal ?? null,
    })
  const params = { protocolVersion: revision, capabilities, clientInfo: { name: 'hand', version: '1' } }
  const begun = await send({ jsonrpc: '2.0', id: 0, method: 'initialize', params }, {})
  await begun.text()
  const sessionId = begun.headers.get('mcp-session-id') ?? ''
  // A server without sessions gives none.
  const inSession = (id: string): Record<string, string> => (id === '' ? {} : { 'mcp-session-id': id })
  const session = inSession(sessionId)
  await (await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)).text()
  let ids = 0
  return {
    sessionId,
    async post(message, other = sessionId, at = url) {
      const response = await send(message, inSession(other), undefined, at)
      await response.text()
      return response
    },
    async end() {
      const response = await fetch(url, { method: 'DELETE', headers: { ...headers, ...session } })
      await response.text()
      return response.status
    },
    async call(name, args, _meta = {}, id = ++ids) {
      const left = new AbortController()
      const messages: Message[] = []
      const emitter = new EventEmitter().setMaxListeners(0)
      const request = { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, _meta } }
      const read = async (): Promise<void> => {
        const response = await send(request, session, left.signal)
        const decoder = new TextDecoder()
        let text = ''
        for await (const piece of response.body ?? []) {
          text += decoder.decode(piece as Uint8Array, { stream: true })
          const lines = text.split('\n')
          text = lines.pop() ?? ''
          for (const line of lines) take(line)
        }
        take(text)
      }
      const take = (line: string): void => {
        const json = /^(?:data: )?(\{.*)$/.exec(line)?.[1]
        if (json === undefined) return
        messages.push(JSON.parse(json) as Message)
        emitter.emit('message')
      }
      let hasEnded = false
      const ended = read()
        .catch(() => undefined)
        .finally(() => {
          hasEnded = true
          emitter.emit('message')
        })
      const after = async (count: number): Promise<Message | undefined> => {
        while (messages.length <= count && !hasEnded) await once(emitter, 'message')
        return messages[count]
      }
      const found = async (matches: (message: Message) => boolean): Promise<Message> => {
        const first = messages.find(matches)
        if (first !== undefined) return first
        for await (const _ of on(emitter, 'message')) {
          const one = messages.find(matches)
          if (one !== undefined) return one
        }
        throw new Error('no such message')
      }
      return {
        id,
        messages,
        ended,
        request: (method) => found((message) => message.method === method),
        after,
        response: () => found((message) => 'result' in message || 'error' in message),
        leave: () => left.abort(),
      }
    },
  }
}

export interface Round {
  readonly result: {
    readonly content?: readonly { readonly text: string }[]
    readonly requestState: string
    readonly inputRequests: { readonly svc: { readonly params: { message: string; url: string } } }
  }
  readonly error?: RpcError
}

/** Sends calls of the tool as a client of 2026-07-28 does, with these params; without a tool it asks for the list. */
export function roundAt(
  url: string,
  name: string | undefined,
  headers: Record<string, string> = {},
  capabilities: object = bothModes,
): (params: object, meta?: object) => Promise<Round> {
  const method = name === undefined ? 'tools/list' : 'tools/call'
  return async (params, meta = {}) => {
    const called = name === undefined ? {} : { name, arguments: { amount: 1 } }
    const options = { headers, capabilities, meta }
    return lastMessage<Round>(await postStateless(url, method, { ...called, ...params }, options))
  }
}
