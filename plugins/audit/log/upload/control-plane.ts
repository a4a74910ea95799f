// The control plane's two endpoints (contract.md §4.1, decisions.md §4 "Upload"), and the store behind
// the URLs it gives.

import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { jsonObjectIn, messageOf } from '@svc/core/json'
import { UploadError } from './error.js'
import { type HttpAnswer, HttpClient } from './http.js'
import { configuredMetadata, DEFAULT_TIMEOUT_MS, type PresignConfig, type UploadMetadata } from './presign.js'
import type { UploadMode } from './source.js'

const CONTENT_TYPE = 'application/x-ndjson'
// What the connection says of itself; the rest of the returned headers is sent as it came.
const OURS = new Set(['host', 'content-length', 'connection', 'transfer-encoding', 'authorization'])

/** Bytes to be put, as the control plane is told of them. */
export interface PutRequest {
  readonly key: string
  readonly mode: UploadMode
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly contentLength: number
}

export interface PresignedUrl {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
}

export class ControlPlane {
  readonly #config: PresignConfig
  readonly #base: string
  readonly #timeoutMs: number
  readonly #idleMs: number
  readonly #client = new HttpClient()
  #metadata: Promise<UploadMetadata> | undefined

  /** `idleMs`: how long a PUT may stand still. */
  constructor(config: PresignConfig, idleMs: number) {
    this.#config = config
    this.#base = config.apiBaseUrl.replace(/\/+$/, '')
    this.#timeoutMs = config.timeoutMs ?? DEFAULT_TIMEOUT_MS
    this.#idleMs = idleMs
  }

  /** As whom to upload; the control plane is asked once, and only for what the configuration lacks. */
  async metadata(signal: AbortSignal): Promise<UploadMetadata> {
    const configured = complete(configuredMetadata(this.#config))
    if (configured !== undefined) return configured
    this.#metadata ??= this.#validateKey(signal)
    try {
      return await this.#metadata
    } catch (error) {
      // The next attempt asks again.
      this.#metadata = undefined
      throw error
    }
  }

  async uploadUrl(request: PutRequest, signal: AbortSignal): Promise<PresignedUrl> {
    const metadata = await this.metadata(signal)
    const path = '/api/svc/upload-url'
    const body = await this.#call(path, { ...metadata, contentType: CONTENT_TYPE, ...request }, signal)
    const { url, headers = {} } = body
    if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new UploadError('upload_failed', `${path} answered without an http or https url`)
    }
    if (!isHeaders(headers)) {
      throw new UploadError('upload_failed', `${path} answered with headers that are no map of texts`)
    }
    return { url: new URL(url), headers }
  }

  /** Resolves when the store has the bytes, by this request or an earlier one. */
  async put(
    { url, headers }: PresignedUrl,
    contentLength: number,
    body: Readable,
    signal: AbortSignal,
  ): Promise<void> {
    const sent: Record<string, string> = { 'content-type': CONTENT_TYPE }
    for (const [name, value] of Object.entries(headers)) {
      if (!OURS.has(name.toLowerCase())) sent[name.toLowerCase()] = value
    }
    sent['content-length'] = String(contentLength)
    let answer: HttpAnswer
    try {
      answer = await this.#client.put(url, sent, body, { idleMs: this.#idleMs, signal })
    } catch (cause) {
      if (cause instanceof UploadError) throw cause
      throw new UploadError('upload_failed', `PUT to ${url.host} failed: ${messageOf(cause)}`, {
        reach: 'file',
        cause,
      })
    }
    const { status } = answer
    // The key is a function of the bytes: what stands there already are these bytes.
    if ((status >= 200 && status < 300) || status === 412) return
    // 409 is S3's answer to a conditional PUT that meets another one of the same key under way, such as our
    // own that timed out: the only 4xx beside 408 and 429 that asks to be repeated.
    throw refusal(answer, `PUT to ${url.host}`, status === 409 ? 'retry' : 'judge', 'file')
  }

  close(): void {
    this.#client.close()
  }

  async #validateKey(signal: AbortSignal): Promise<UploadMetadata> {
    const path = '/api/auth/validate-key'
    const { tenant, env, environment, clientName, clientVersion } = await this.#call(path, {}, signal)
    const told = texts({ tenant, env: env ?? environment, clientName, clientVersion })
    const metadata = complete({ ...told, ...configuredMetadata(this.#config) })
    if (metadata === undefined) {
      throw new UploadError(
        'upload_rejected',
        `${path} answered without all of tenant, env, clientName, clientVersion; set what is missing in presign`,
      )
    }
    return metadata
  }

  async #call(path: string, body: object, signal: AbortSignal): Promise<Record<string, unknown>> {
    let answer: HttpAnswer
    try {
      answer = await this.#client.postJson(new URL(this.#base + path), this.#config.auditKey, body, {
        timeoutMs: this.#timeoutMs,
        signal,
      })
    } catch (cause) {
      throw new UploadError('upload_failed', `${path} failed: ${messageOf(cause)}`, { cause })
    }
    const { status } = answer
    if (status < 200 || status >= 300) {
      // A key that is refused is refused for every file; any other refusal may be about this one.
      const reach = status === 401 || status === 403 || path.includes('/auth/') ? 'all' : 'file'
      throw refusal(answer, path, 'judge', status >= 400 && status < 500 ? reach : 'all')
    }
    const value = jsonObjectIn(answer.body)
    if (value === undefined) throw new UploadError('upload_failed', `${path} answered without a JSON object`)
    return value
  }
}

function refusal(
  { status, headers, body }: HttpAnswer,
  what: string,
  mode: 'judge' | 'retry',
  reach: 'all' | 'file',
): UploadError {
  const isFinal = mode === 'judge' && status >= 400 && status < 500 && status !== 408 && status !== 429
  const hint = status === 401 ? '; is presign.auditKey right?' : ''
  const retryAfterMs = isFinal ? undefined : retryAfter(headers)
  return new UploadError(
    isFinal ? 'upload_rejected' : 'upload_failed',
    `${what} answered ${status}${excerpt(body)}${hint}`,
    { reach, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
  )
}

/** `Retry-After` in seconds (RFC 9110 §10.2.3); the form with a date is not worth a dependence on clocks. */
function retryAfter(headers: IncomingHttpHeaders): number | undefined {
  const seconds = Number(headers['retry-after'])
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined
}

/** The beginning of an answer, fit for a log line. */
function excerpt(body: string): string {
  const text = body
    .slice(0, 200)
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
  return text === '' ? '' : `: ${text}`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isHeaders(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((held) => typeof held === 'string')
}

function texts(fields: Record<string, unknown>): Partial<UploadMetadata> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => typeof value === 'string' && value !== ''),
  )
}

function complete({
  tenant,
  env,
  clientName,
  clientVersion,
}: Partial<UploadMetadata>): UploadMetadata | undefined {
  if (!tenant || !env || !clientName || !clientVersion) return undefined
  return { tenant, env, clientName, clientVersion }
}
