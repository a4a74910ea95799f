// Receives OTLP over HTTP with JSON, by the messages generated from the published protobuf definitions: a request that they
// do not know in every member fails the test.
import { createServer, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { expect } from 'chai'
import { listenOnLoopback } from './loopback.js'

interface MessageType {
  fromObject(value: object): object
  verify(value: object): string | null
  toObject(message: object, options: object): Record<string, unknown>
}

export interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { key: string; value: Record<string, unknown> }[]
  readonly status: { code?: number; message?: string }
}

const { opentelemetry } = createRequire(import.meta.url)('otlp-messages/build/src/generated/root.js') as {
  opentelemetry: { proto: { collector: Record<string, { v1: Record<string, MessageType> }> } }
}
const requests: Record<string, MessageType | undefined> = {
  '/v1/logs': opentelemetry.proto.collector['logs']?.v1['ExportLogsServiceRequest'],
  '/v1/metrics': opentelemetry.proto.collector['metrics']?.v1['ExportMetricsServiceRequest'],
  '/v1/traces': opentelemetry.proto.collector['trace']?.v1['ExportTraceServiceRequest'],
}

export interface OtlpLog {
  readonly traceId: string
  readonly spanId: string
  readonly timeUnixNano: string
  readonly severityText: string
  readonly body: {
    readonly stringValue?: string
    readonly kvlistValue?: { readonly values: OtlpSpan['attributes'] }
  }
  readonly attributes: OtlpSpan['attributes']
}

interface OtlpPoint extends Pick<OtlpSpan, 'attributes' | 'startTimeUnixNano'> {
  readonly asDouble?: number
  readonly sum?: number
  readonly count?: number
  readonly bucketCounts?: readonly number[]
  readonly explicitBounds?: readonly number[]
}

interface OtlpPoints {
  readonly dataPoints: readonly OtlpPoint[]
  readonly isMonotonic?: boolean
  /** 2: cumulative. */
  readonly aggregationTemporality?: number
}

export interface OtlpMetric {
  readonly name: string
  readonly description: string
  readonly unit: string
  readonly sum?: OtlpPoints
  readonly gauge?: OtlpPoints
  readonly histogram?: OtlpPoints
}

export class OtlpReceiver implements AsyncDisposable {
  readonly url: string
  readonly spans: OtlpSpan[] = []
  readonly logs: OtlpLog[] = []
  /** The last value of each by its name. */
  readonly metrics = new Map<string, OtlpMetric>()
  readonly resources: Pick<OtlpSpan, 'attributes'>[] = []
  /** The status of responses. What has another status than 200 is not kept. */
  status = 200
  /** Responds in place of the receiver, or never does. */
  respond: ((response: ServerResponse, path: string) => void) | undefined
  #close: () => Promise<void>
  #received: (() => void)[] = []
  /** Requests that were not valid. */
  readonly mistakes: unknown[] = []

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url
    this.#close = close
  }

  static async start(): Promise<OtlpReceiver> {
    let receiver: OtlpReceiver | undefined
    const server: Server = createServer((message, response) => {
      const pieces: Buffer[] = []
      message.on('data', (piece: Buffer) => pieces.push(piece))
      message.on('end', () => {
        const { status = 503, respond } = receiver ?? {}
        if (respond !== undefined) return respond(response, message.url ?? '')
        response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
        const body = JSON.parse(Buffer.concat(pieces).toString())
        if (receiver !== undefined) receiver.#take(message.url ?? '', body)
      })
    })
    const listening = await listenOnLoopback(server)
    receiver = new OtlpReceiver(listening.url, async () => listening[Symbol.asyncDispose]())
    return receiver
  }

  #take(path: string, body: Record<string, unknown>): void {
    if (this.status !== 200) return
    try {
      checkMessage(requests[path], path, body)
    } catch (error) {
      this.mistakes.push(error)
    }
    for (const { scopeLogs } of (body['resourceLogs'] ?? []) as {
      scopeLogs: { logRecords: OtlpLog[] }[]
    }[]) {
      for (const { logRecords } of scopeLogs) this.logs.push(...logRecords)
    }
    for (const { resource, scopeMetrics } of (body['resourceMetrics'] ?? []) as {
      resource: Pick<OtlpSpan, 'attributes'>
      scopeMetrics: { metrics: OtlpMetric[] }[]
    }[]) {
      this.resources.push(resource)
      for (const { metrics } of scopeMetrics)
        for (const metric of metrics) this.metrics.set(metric.name, metric)
    }
    for (const { resource, scopeSpans } of (body['resourceSpans'] ?? []) as {
      resource: Pick<OtlpSpan, 'attributes'>
      scopeSpans: { spans: OtlpSpan[] }[]
    }[]) {
      this.resources.push(resource)
      for (const { spans } of scopeSpans) this.spans.push(...spans)
    }
    for (const received of this.#received.splice(0)) received()
  }

  /** Resolves once what was received satisfies `holds`. Rejects if a request was not valid. */
  async until(holds: (spans: readonly OtlpSpan[]) => boolean): Promise<void> {
    while (!holds(this.spans)) await new Promise<void>((resolve) => this.#received.push(resolve))
    if (this.mistakes.length > 0) throw new AggregateError(this.mistakes)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close()
  }
}

export function attributesOf(of: Pick<OtlpSpan, 'attributes'> | undefined): Record<string, unknown> {
  return Object.fromEntries(
    (of?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]] as const),
  )
}

function checkMessage(type: MessageType | undefined, path: string, body: object): void {
  if (type === undefined) expect.fail(`no such path: ${path}`)
  const encoded = withBase64Ids(body) as object
  const message = type.fromObject(encoded)
  expect(type.verify(message)).to.equal(null)
  const known = type.toObject(message, {
    longs: String,
    bytes: String,
    enums: Number,
    defaults: true,
    arrays: true,
  })
  checkMembers(encoded, known, path)
}

/** JSON has ids in hexadecimal (OTLP specification, "JSON Protobuf Encoding"), the generated code expects base64. */
function withBase64Ids(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBase64Ids)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const isId = /^(?:traceId|spanId|parentSpanId)$/.test(key) && typeof inner === 'string'
      return [key, isId ? Buffer.from(inner, 'hex').toString('base64') : withBase64Ids(inner)]
    }),
  )
}

function checkMembers(sent: unknown, known: unknown, path: string): void {
  if (typeof sent !== 'object' || sent === null) return
  expect(known, path).to.be.an(Array.isArray(sent) ? 'array' : 'object')
  for (const [key, inner] of Object.entries(sent)) {
    expect(known, path).to.have.property(key)
    checkMembers(inner, (known as Record<string, unknown>)[key], `${path}.${key}`)
  }
}
