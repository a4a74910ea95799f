// Sends generated requests through a whole gateway, whose dispatcher gives the forwarded requests to the readers. Each
// tool or resource that a reader runs or opens must be the one that the record names and the policy allows.
import { bind, type Clock, tokens } from '@svc/core'
import { startGatewayServer } from 'svc-sdk'
import { upstreamDispatcher } from 'svc-sdk/internal/upstream/dispatcher'
import { Pool } from 'undici'
import { recordingTo } from '../../support/gateway.js'
import { keepingLogger } from '../../support/logger.js'
import { nameReaders, pathReaders, unquote, uriReaders } from './readers.js'
import { type GeneratedRequest, requestOf } from './requests.js'

export interface Summary {
  readonly requests: number
  /** The number of requests that were forwarded. */
  readonly sent: number
}

/** The outcome of one request. */
export interface Reading {
  readonly status: number
  readonly body: string
  readonly sent: Message | undefined
  /** `name@version` of the record. */
  readonly recorded: string
  readonly inputSha256: string | null
  readonly outputSha256: string | null
  /** Of the response's bytes, and not of the result. */
  readonly isOfBytes: boolean
  readonly records: number
}

interface Recorded {
  readonly trace_id: string
  readonly tool: string
  readonly input_sha256: string | null
  readonly output_sha256: string | null
  readonly output_form?: 'bytes'
}

/** A request to the gateway: a path and a body. */
export interface Message {
  readonly path: string
  readonly body: string
}

const policy = {
  entitlements: {
    default_plan: 'free',
    plans: { free: {} },
    tenants: {
      acme: {
        plan: 'free',
        allowlist: [
          'billing/get_*',
          'crm/get_*',
          'files/get_*',
          'files/prompts/get_*',
          'files/resources/file:///srv/public/*',
          'files/resources/file:///C*',
          'files/resources/https://*',
          'files/resources/demo://*',
        ],
        denylist: [
          'files/resources/https://internal.example/*',
          'files/resources/demo://box/secret',
          'files/resources/demo://box/100%2525',
        ],
      },
    },
  },
  security: { allow_versions: { billing: ['1.*'], crm: ['1.*'] } },
}

/** A gateway whose upstreams are the readers. */
export class ReadersGateway implements AsyncDisposable {
  #handle: ReturnType<typeof startGatewayServer>
  #pool: Pool | undefined
  #sent = new Map<string, Message>()
  #records = new Map<string, Recorded[]>()

  /** `response` returns the response of an upstream to a request with this body. */
  constructor(
    response: (body: string) => string = respondTo,
    policyObject: Record<string, unknown> = policy,
    clock?: Clock,
  ) {
    const { audit, configure } = recordingTo({
      append: async (envelope) => {
        const record = envelope as Recorded
        this.#records.set(record.trace_id, [...(this.#records.get(record.trace_id) ?? []), record])
      },
    })
    this.#handle = startGatewayServer({
      port: 0,
      tenant: 'acme',
      targets: {
        billing: 'http://upstream.test/billing',
        crm: 'mcp+http://crm.test/mcp',
        files: 'http://files.test/mcp',
      },
      ...(audit === undefined ? {} : { audit }),
      quotas: { adapter: 'memory' },
      authn: { allowUnauthenticated: true },
      policyObject,
      configure: (container) => {
        configure?.(container)
        bind(container, tokens.Logger, { useValue: keepingLogger() })
        if (clock !== undefined) bind(container, tokens.Clock, { useValue: clock })
        bind(container, upstreamDispatcher, {
          useValue: {
            send: async (_target, { path, body, headers }, onSent) => {
              onSent()
              const text = Buffer.from(body ?? '').toString()
              const trace = /^00-([0-9a-f]{32})-/.exec(String(headers['traceparent']))?.[1]
              if (trace !== undefined && !text.includes('"initialize"'))
                this.#sent.set(trace, { path, body: text })
              return {
                status: 200,
                headers: { 'content-type': 'application/json' },
                body: Buffer.from(text.includes('"initialize"') ? respondTo(text) : response(text)),
              }
            },
            close: async () => undefined,
          },
        })
      },
    })
  }

  async start(): Promise<this> {
    const { url } = await this.#handle.ready()
    this.#pool = new Pool(url, { connections: 8 })
    return this
  }

  read(request: GeneratedRequest): Promise<Reading> {
    return this.send(messageOf(request))
  }

  async send(message: Message): Promise<Reading> {
    if (this.#pool === undefined) throw new Error('not started')
    const response = await this.#pool.request({
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...message,
    })
    const body = await response.body.text()
    const trace = String(response.headers['x-trace-id'])
    const records = this.#records.get(trace) ?? []
    const sent = this.#sent.get(trace)
    this.#records.delete(trace)
    this.#sent.delete(trace)
    return {
      status: response.statusCode,
      body,
      sent,
      recorded: records[0]?.tool ?? '',
      inputSha256: records[0]?.input_sha256 ?? null,
      outputSha256: records[0]?.output_sha256 ?? null,
      isOfBytes: records[0]?.output_form === 'bytes',
      records: records.length,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool?.close()
    await this.#handle.close()
  }
}

function respondTo(body: string): string {
  const { id, method } = JSON.parse(body) as { id?: unknown; method?: unknown }
  const serverInfo = { name: 's', version: '1.0.0' }
  const result =
    method === 'initialize'
      ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo }
      : { content: [] }
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}

function messageOf({ face, text }: GeneratedRequest): Message {
  const server = face.endsWith('-mcp') ? 'crm' : 'billing'
  if (face === 'invoke' || face === 'invoke-mcp')
    return { path: `/mcp/${server}/${text.replace(/[^\x21-\x7e]/gu, encodeURIComponent)}`, body: '{}' }
  if (face === 'a2a' || face === 'a2a-mcp')
    return { path: '/a2a/invoke', body: JSON.stringify({ to: server, toolAtVersion: text, args: {} }) }
  const [method, params] =
    face === 'resource'
      ? ['resources/read', { uri: text }]
      : [face === 'tool' ? 'tools/call' : 'prompts/get', { name: text }]
  return { path: '/mcp/files', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) }
}

/** The error in a reading; undefined if there is none. */
export function error({ face }: GeneratedRequest, reading: Reading): string | undefined {
  const { sent, recorded, records } = reading
  if (records !== 1) return `${records} records`
  if (sent === undefined) return undefined
  const at = recorded.lastIndexOf('@')
  const [name, version] = [recorded.slice(0, at), recorded.slice(at + 1)]
  if (face === 'invoke' || face === 'a2a') {
    for (const [reader, read] of Object.entries(pathReaders)) {
      for (const run of read(sent.path)) {
        if (slashed(run) !== slashed(recorded)) return `${reader} runs ${run}, the record names ${recorded}`
        if (!/^get_.*@1\.[A-Za-z0-9._+-]*$/s.test(run)) return `${reader} runs ${run}, which is not allowed`
      }
    }
    return undefined
  }
  const { params } = JSON.parse(sent.body) as { params: { name?: string; uri?: string } }
  if (face === 'resource') return uriError(params.uri ?? '', name)
  for (const [reader, read] of Object.entries(nameReaders)) {
    const run = read(params.name ?? '')
    if (run !== name || version !== '1.0.0') return `${reader} runs ${run}, the record names ${recorded}`
    if (!run.startsWith('get_')) return `${reader} runs ${run}, which is not allowed`
  }
  return undefined
}

/** A name may hold a backslash, which Windows reads as a slash. */
function slashed(run: string): string {
  return run.replaceAll('\\', '/')
}

const deniedUris = new Set(['demo://box/secret', 'demo://box/100%'])

function uriError(uri: string, recorded: string): string | undefined {
  const [origin, path] = /^([^/]*\/\/[^/]*)(.*)$/s.exec(recorded)?.slice(1) ?? ['', recorded]
  const named = `${origin}${unquote(resourceIn(origin ?? '', path ?? ''))}`
  for (const [reader, read] of Object.entries(uriReaders)) {
    const opened = read(uri)
    if (opened === undefined) continue
    if (opened !== named) return `${reader} opens ${opened}, the record names ${recorded}`
    const isAllowed =
      /^(?:file:\/\/\/srv\/public\/|file:\/\/\/C|https:\/\/(?!internal\.example\/)|demo:\/\/)/.test(opened)
    if (!isAllowed || deniedUris.has(opened)) return `${reader} opens ${opened}, which is not allowed`
  }
  return undefined
}

/** The path without the part that does not name the resource: a query if the scheme has hosts, or a fragment. */
function resourceIn(origin: string, path: string): string {
  if (origin.startsWith('file:')) return path
  return path.replace(origin.startsWith('demo:') ? /[?#].*$/s : /\?.*$/s, '')
}

/** Throws for the first request that a reader reads differently, with the number that generates it. */
export async function compareReadings(seed: number, requests: number): Promise<Summary> {
  await using gateway = await new ReadersGateway().start()
  let sent = 0
  for (let at = 0; at < requests; at += 64) {
    const numbers = Array.from({ length: Math.min(64, requests - at) }, (_, i) => seed + at + i)
    await Promise.all(
      numbers.map(async (number) => {
        const request = requestOf(number)
        const reading = await gateway.read(request)
        if (reading.sent !== undefined) sent++
        const wrong = error(request, reading)
        if (wrong !== undefined) throw new Error(`request ${number} ${JSON.stringify(request)}: ${wrong}`)
      }),
    )
  }
  return { requests, sent }
}
