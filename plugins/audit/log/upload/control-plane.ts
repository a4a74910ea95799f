// The control plane's endpoints for a writer, and the store behind the URLs that it gives.

import { HttpClient, type HttpExchange, type HttpResponse } from '@svc/core/http-client'
import { isJsonObject, isUrl, messageOf, parseJsonObject } from '@svc/core/json'
import { UploadError } from './error.js'
import { DEFAULT_TIMEOUT_MS, type PresignConfig, type UploadMetadata } from './presign.js'
import type { UploadMode } from './source.js'

const CONTENT_TYPE = 'application/x-ndjson'
/** Over a page of 1,000 objects whose keys have 1,024 bytes each, the longest of S3. */
const MAX_RESPONSE_BYTES = 2_097_152
// Set by the HTTP client itself; all other returned headers are sent unchanged.
const CONNECTION_HEADERS = new Set([
  'host',
  'content-length',
  'connection',
  'transfer-encoding',
  'authorization',
])

type OwnerField = 'tenant' | 'environment' | 'clientName' | 'clientVersion'

/** An upload, as described to the control plane. */
interface PutRequest {
  readonly key: string
  readonly mode: UploadMode
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly contentLength: number
  /** SHA-256 of the object, base64. */
  readonly checksumSha256: string
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
  readonly #client = new HttpClient({ keepAlive: true })
  #metadata: Promise<UploadMetadata> | undefined

  /** @param idleMs time without progress after which a PUT is aborted. */
  constructor(config: PresignConfig, idleMs: number) {
    this.#config = config
    this.#base = config.apiBaseUrl.replace(/\/+$/, '')
    this.#timeoutMs = config.timeoutMs ?? DEFAULT_TIMEOUT_MS
    this.#idleMs = idleMs
  }

  /** The owner of the upload. The control plane is asked once, and only for what the configuration lacks. */
  async metadata(signal: AbortSignal): Promise<UploadMetadata> {
    const configured = complete(this.#config)
    if (configured !== undefined) return configured
    this.#metadata ??= this.#validateKey(signal)
    try {
      return await this.#metadata
    } catch (error) {
      this.#metadata = undefined
      throw error
    }
  }

  /** Asks the control plane whether it accepts the API key; nothing is uploaded. Rejects with `UploadError`. */
  async checkKey(signal: AbortSignal): Promise<void> {
    await this.#validateKey(signal)
  }

  async uploadUrl(request: PutRequest, signal: AbortSignal): Promise<PresignedUrl> {
    return this.presigned('/api/svc/upload-url', { contentType: CONTENT_TYPE, ...request }, signal)
  }

  /** Asks for a presigned URL for an object of this owner. */
  async presigned(path: string, request: object, signal: AbortSignal): Promise<PresignedUrl> {
    const { url, headers = {} } = await this.ask(path, request, signal)
    if (typeof url !== 'string' || !isUrl(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new UploadError('upload_failed', `${path} responded without an http or https url`)
    }
    if (!isHeaders(headers)) {
      throw new UploadError('upload_failed', `${path} responded with headers that are not a map of strings`)
    }
    return { url: new URL(url), headers }
  }

  /** The response to a request about objects of this owner. Rejects with `UploadError`. */
  async ask(path: string, request: object, signal: AbortSignal): Promise<Record<string, unknown>> {
    return this.#call(path, { ...(await this.metadata(signal)), ...request }, signal)
  }

  /** Resolves when the store has the bytes, from this request or an earlier one. */
  async put(
    { url, headers }: PresignedUrl,
    contentLength: number,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const requestHeaders: Record<string, string> = { 'content-type': CONTENT_TYPE }
    for (const [name, value] of Object.entries(headers)) {
      if (!CONNECTION_HEADERS.has(name.toLowerCase())) requestHeaders[name.toLowerCase()] = value
    }
    requestHeaders['content-length'] = String(contentLength)
    let response: HttpResponse
    try {
      response = await this.#send(url, {
        method: 'PUT',
        headers: requestHeaders,
        body,
        idleMs: this.#idleMs,
        signal,
      })
    } catch (cause) {
      if (cause instanceof UploadError) throw cause
      throw new UploadError('upload_failed', `PUT to ${url.host} failed: ${messageOf(cause)}`, {
        scope: 'file',
        cause,
      })
    }
    const { status } = response
    // 412: the key contains the hash of the bytes, so the store already has these bytes.
    if ((status >= 200 && status < 300) || status === 412) return
    // 409: S3's response to a conditional PUT while another PUT of the same key is in progress, such as our own that
    // timed out. It is retried, like 408 and 429.
    throw refusal(response, `PUT to ${url.host}`, status === 409 ? 'retryable' : 'by_status', 'file')
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  async #validateKey(signal: AbortSignal): Promise<UploadMetadata> {
    const path = '/api/auth/validate-key'
    const { tenant, env, environment, clientName, clientVersion } = await this.#call(path, {}, signal)
    const config = this.#config
    const metadata = complete({
      tenant: config.tenant ?? tenant,
      environment: config.environment ?? env ?? environment,
      clientName: config.clientName ?? clientName,
      clientVersion: config.clientVersion ?? clientVersion,
    })
    if (metadata === undefined) {
      throw new UploadError(
        'upload_rejected',
        `${path} responded without all of tenant, env, clientName, clientVersion; set what is missing in presign`,
      )
    }
    return metadata
  }

  async #call(path: string, body: object, signal: AbortSignal): Promise<Record<string, unknown>> {
    let response: HttpResponse
    try {
      response = await this.#send(this.#base + path, {
        headers: {
          authorization: this.#config.auditKey,
          accept: 'application/json',
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
        timeoutMs: this.#timeoutMs,
        signal,
      })
    } catch (cause) {
      throw new UploadError('upload_failed', `${path} failed: ${messageOf(cause)}`, { cause })
    }
    const { status } = response
    if (status < 200 || status >= 300) {
      // A refused key is refused for every file; other refusals may concern only this file.
      const scope = status === 401 || status === 403 || path.includes('/auth/') ? 'all' : 'file'
      throw refusal(response, path, 'by_status', status >= 400 && status < 500 ? scope : 'all')
    }
    const value = parseJsonObject(response.bytes.toString('utf8'))
    if (value === undefined) throw new UploadError('upload_failed', `${path} responded without a JSON object`)
    return value
  }

  async #send(url: URL | string, exchange: Omit<HttpExchange, 'maxBytes'>): Promise<HttpResponse> {
    const response = await this.#client.send(url, { ...exchange, maxBytes: MAX_RESPONSE_BYTES })
    if (response.isCut) throw new Error(`the response is over ${MAX_RESPONSE_BYTES} bytes`)
    return response
  }
}

function refusal(
  { status, headers, bytes }: HttpResponse,
  what: string,
  kind: 'by_status' | 'retryable',
  scope: 'all' | 'file',
): UploadError {
  const isRefused = kind === 'by_status' && status >= 400 && status < 500 && status !== 408 && status !== 429
  const hint = status === 401 ? '; is presign.auditKey right?' : ''
  const retryAfterMs = isRefused ? undefined : retryAfter(headers)
  return new UploadError(
    isRefused ? 'upload_rejected' : 'upload_failed',
    `${what} responded with ${status}${excerpt(bytes)}${hint}`,
    { scope, status, retryAfterMs },
  )
}

/**
 * `Retry-After` in seconds (RFC 9110 §10.2.3). The date form is ignored because it depends on synchronized clocks.
 */
function retryAfter(headers: HttpResponse['headers']): number | undefined {
  const seconds = Number(headers['retry-after'])
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined
}

/** The start of a response body, safe for a log line. */
function excerpt(bytes: Buffer): string {
  const text = bytes
    .toString('utf8')
    .slice(0, 200)
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
  return text === '' ? '' : `: ${text}`
}

function isHeaders(value: unknown): value is Record<string, string> {
  return isJsonObject(value) && Object.values(value).every((held) => typeof held === 'string')
}

/** Undefined if one of them is not a string, or is empty. */
function complete(owner: { readonly [Field in OwnerField]?: unknown }): UploadMetadata | undefined {
  const { tenant, environment: env, clientName, clientVersion } = owner
  return isText(tenant) && isText(env) && isText(clientName) && isText(clientVersion)
    ? { tenant, env, clientName, clientVersion }
    : undefined
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
