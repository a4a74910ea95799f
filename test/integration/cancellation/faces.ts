// The faces of the gateway, each as a client that makes one call, cancels it and leaves.
import { randomBytes } from 'node:crypto'
import { type IncomingHttpHeaders, request } from 'node:http'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { Call } from '@svc/core'
import type { GatewaySettings } from 'svc-sdk'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { Bridge } from 'svc-sdk/internal/stdio/gateway/bridge'
import { LineGateway } from 'svc-sdk/internal/stdio/gateway/serve'
import { governServer } from 'svc-sdk/mcp'
import { z } from 'zod'
import { keepingLogger } from '../../support/logger.js'

const STATELESS = '2026-07-28'

/** One call of a client. */
export interface Made {
  /** Resolves when the client has its response, or none will come. */
  readonly ended: Promise<unknown>
  /** Resolves when the gateway has got the cancellation. */
  cancel(): Promise<unknown>
  leave(): void
}

export interface Face {
  readonly name: string
  /** Whether the protocol has a message to cancel a call, or the client closes its stream for it. */
  readonly cancels: 'message' | 'leaving' | 'no'
  /** Whether the stages run before the request is read. */
  readonly readsLate?: boolean
  /** To be awaited once, before the calls. */
  open?(): Promise<void>
  call(n: unknown, trace: string): Made
  close?(): Promise<void>
}

/** What may end a call. */
export type Event = 'no event' | 'a cancellation' | 'a disconnect'

export async function happen(event: Event, made: Made, call: Call): Promise<void> {
  if (event === 'a cancellation') await made.cancel()
  if (event !== 'a disconnect') return
  const left = new Promise<void>((resolve) => call.onDisconnect(resolve))
  made.leave()
  await left
}

let lastId = 100

/** Each request has its own connection, because a connection that another client has left may close. */
function send(
  url: string,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal | undefined,
): Promise<IncomingHttpHeaders> {
  return new Promise((resolve, reject) => {
    const options = {
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json', ...headers },
    }
    request(url, signal === undefined ? options : { ...options, signal })
      .once('error', reject)
      .once('response', (response) => {
        response
          .resume()
          .once('end', () => resolve(response.headers))
          .once('error', reject)
      })
      .end(body)
  })
}

const meta = {
  'io.modelcontextprotocol/protocolVersion': STATELESS,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}
const initializeParams = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 't', version: '1' },
}

interface OverHttp {
  readonly name: string
  readonly path: string
  readonly tool?: string
  readonly kind?: 'session' | 'plain' | 'stateless'
  /** Headers of every request. */
  readonly headers?: Record<string, string>
}

/** A client of MCP over HTTP, of each kind of revision. */
export function mcpFace(
  gatewayUrl: string,
  { name, path, tool = 'pay', kind = 'session', headers: always = {} }: OverHttp,
): Face {
  const isOfSeveral = tool !== 'pay'
  const url = `${gatewayUrl}${path}`
  const isStateless = kind === 'stateless'
  let session: Record<string, string> = {}
  const post = (body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    send(
      url,
      { accept: 'application/json, text/event-stream', ...always, ...session, ...headers },
      JSON.stringify(body),
      signal,
    )
  const standard = (method: string, named?: string): Record<string, string> =>
    isStateless
      ? {
          'mcp-protocol-version': STATELESS,
          'mcp-method': method,
          ...(named === undefined ? {} : { 'mcp-name': named }),
        }
      : {}
  const withMeta = (params: object) => (isStateless ? { ...params, _meta: meta } : params)
  return {
    name,
    cancels: isStateless ? 'leaving' : 'message',
    readsLate: !isOfSeveral,
    async open() {
      if (!isStateless) {
        const head = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params: initializeParams })
        const id = head['mcp-session-id']
        session = typeof id === 'string' ? { 'mcp-session-id': id } : {}
        await post({ jsonrpc: '2.0', method: 'notifications/initialized' })
      }
      // At several servers this opens the sessions at the servers, whose requests must not stop at the points.
      await post(
        { jsonrpc: '2.0', id: 2, method: 'tools/list', params: withMeta({}) },
        standard('tools/list'),
      )
    },
    call(n, trace) {
      const id = lastId++
      const leaving = new AbortController()
      const params = withMeta({ name: tool, arguments: { n } })
      const message = { jsonrpc: '2.0', id, method: 'tools/call', params }
      const headers = { traceparent: `00-${trace}-00f067aa0ba902b7-01`, ...standard('tools/call', tool) }
      return {
        ended: post(message, headers, leaving.signal).catch(() => undefined),
        cancel: () => post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } }),
        leave: () => leaving.abort(),
      }
    },
  }
}

/** `path` is of a tool of the invoke protocol. */
export function invokeFace(
  gatewayUrl: string,
  name: string,
  path: string,
  always: Record<string, string> = {},
): Face {
  return {
    name,
    cancels: 'no',
    readsLate: true,
    call(n, trace) {
      const leaving = new AbortController()
      const headers = { ...always, traceparent: `00-${trace}-00f067aa0ba902b7-01` }
      return {
        ended: send(`${gatewayUrl}${path}`, headers, JSON.stringify({ n }), leaving.signal).catch(
          () => undefined,
        ),
        cancel: () => Promise.reject(new Error('the invoke protocol has no cancellation')),
        leave: () => leaving.abort(),
      }
    },
  }
}

/** `svc stdio` without a process of its own. */
export function stdioFace(
  name: string,
  options: Omit<GatewaySettings, 'port'>,
  isStateless: boolean,
): Face & { readonly gateway: LineGateway } {
  const gateway = new LineGateway(new GatewayBuilder({ port: 0, ...options }), undefined)
  const waiting = new Map<unknown, () => void>()
  const bridge = new Bridge({
    logger: keepingLogger(),
    send: (exchange, method) => gateway.send(exchange, method),
    async write(line) {
      const { id } = JSON.parse(line) as { id?: unknown }
      waiting.get(id)?.()
    },
  })
  const tell = (message: object) => bridge.receive(JSON.stringify({ jsonrpc: '2.0', ...message }))
  const responded = (id: unknown) =>
    new Promise<void>((resolve) => {
      waiting.set(id, resolve)
    })
  const withMeta = (params: object, more: object = {}) => ({
    ...params,
    _meta: { ...(isStateless ? meta : {}), ...more },
  })
  return {
    name,
    cancels: 'message',
    gateway,
    async open() {
      await gateway.ready()
      if (!isStateless) {
        const begun = responded(1)
        tell({ id: 1, method: 'initialize', params: initializeParams })
        await begun
        tell({ method: 'notifications/initialized' })
      }
      const listed = responded(2)
      tell({ id: 2, method: 'tools/list', params: withMeta({}) })
      await listed
    },
    call(n, trace) {
      const id = lastId++
      const ended = responded(id)
      tell({
        id,
        method: 'tools/call',
        params: withMeta(
          { name: 'session__pay', arguments: { n } },
          { traceparent: `00-${trace}-00f067aa0ba902b7-01` },
        ),
      })
      return {
        ended,
        async cancel() {
          tell({ method: 'notifications/cancelled', params: { requestId: id } })
          // A cancellation has no response; the gateway has read it when it responds to later requests.
          for (let round = 0; round < 2; round++) {
            const ping = lastId++
            const pong = responded(ping)
            tell({ id: ping, method: 'tools/list', params: withMeta({}) })
            await pong
          }
        },
        leave: () => undefined,
      }
    },
    async close() {
      await bridge.close()
      await gateway.close()
    },
  }
}

export const newTrace = (): string => randomBytes(16).toString('hex')

/** A server of the program, behind `governServer`; `pay` is its tool. */
export function governedFace(
  config: Parameters<typeof governServer>[1],
  pay: (n: unknown) => Promise<void>,
): Face {
  const server = new McpServer({ name: 'own', version: '1.0.0' })
  server.registerTool('pay', { inputSchema: { n: z.unknown() } }, async ({ n }) => {
    await pay(n)
    return { content: [{ type: 'text', text: 'paid' }] }
  })
  const governed = governServer(server, config)
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const waiting = new Map<unknown, () => void>()
  theirs.onmessage = (message) => waiting.get('id' in message ? message.id : undefined)?.()
  const tell = (message: object) => theirs.send({ jsonrpc: '2.0', ...message } as never)
  async function ask(method: string, params: object): Promise<void> {
    const id = lastId++
    const responded = new Promise<void>((resolve) => {
      waiting.set(id, resolve)
    })
    await tell({ id, method, params })
    await responded
  }
  return {
    name: 'governServer',
    cancels: 'message',
    async open() {
      await governed.ready()
      await server.connect(ours)
      await theirs.start()
      await ask('initialize', initializeParams)
      await tell({ method: 'notifications/initialized' })
    },
    call(n, trace) {
      const id = lastId++
      const ended = new Promise<void>((resolve) => {
        waiting.set(id, resolve)
      })
      const _meta = { traceparent: `00-${trace}-00f067aa0ba902b7-01` }
      void tell({ id, method: 'tools/call', params: { name: 'pay', arguments: { n }, _meta } })
      return {
        ended,
        async cancel() {
          await tell({ method: 'notifications/cancelled', params: { requestId: id } })
          for (let round = 0; round < 2; round++) await ask('ping', {})
        },
        leave: () => undefined,
      }
    },
    async close() {
      await theirs.close()
      await governed.close()
    },
  }
}
