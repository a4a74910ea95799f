// HTTP client of the admin listener, for the operators' commands. The token is sent in a header only.
import { setTimeout as delay } from 'node:timers/promises'
import { isLoopbackHost, retryAfterMs } from '@svc/core/http'
import { HttpClient, type HttpResponse } from '@svc/core/http-client'
import { isUrl, messageOf } from '@svc/core/json'
import { isKeyError, KeyReader } from '@svc/core/secret'

const timeoutMs = 10_000
/** Requests that the listener did not look at, as wrong tokens of others on this machine were before them, are sent again. */
const maxTries = 30
const maxPauseMs = 5_000
/** Limit for a response: a page of escalations with long inputs is smaller. */
const maxBytes = 64 * 1024 * 1024

/** An error that the command prints in one line. */
export class AdminError extends Error {
  override readonly name = 'AdminError'
}

interface AdminAddress {
  /** URL of the admin listener, perhaps below a path of a proxy. */
  readonly url: string
  /** `env:NAME` or `file://PATH`. */
  readonly tokenRef: string
  /** The base of a relative path in it; the working directory if absent. */
  readonly baseDir?: string
  /** Whether to send the token over plain http to another machine. */
  readonly insecureHttp?: boolean
}

export class AdminClient {
  #base: URL
  #token: string

  private constructor(base: URL, token: string) {
    this.#base = base
    this.#token = token
  }

  /** Rejects with `AdminError` if the address is not valid or the token cannot be read. */
  static async open(
    { url, tokenRef, baseDir = process.cwd(), insecureHttp = false }: AdminAddress,
    env: Readonly<Record<string, string | undefined>>,
  ): Promise<AdminClient> {
    const base = baseOf(url)
    if (base.protocol !== 'https:' && !isLoopbackHost(base.hostname) && !insecureHttp) {
      throw new AdminError(
        `${base.origin}: the token would cross the network in plain text; use https, or forward the port to this machine, or pass --insecure-http`,
      )
    }
    return new AdminClient(base, await readToken(tokenRef, { baseDir, stateDir: baseDir, env }))
  }

  get origin(): string {
    return this.#base.origin
  }

  /** The response as it comes. `path` begins with a slash. */
  fetch(path: string, { headers, ...init }: RequestInit): Promise<Response> {
    const all = new Headers(headers)
    all.set('authorization', `Bearer ${this.#token}`)
    return fetch(new URL(path.slice(1), this.#base), { ...init, headers: all, redirect: 'error' })
  }

  /** The response's JSON. Rejects with `AdminError` for every response but 200. */
  async ask(path: string, body?: object): Promise<unknown> {
    return (await this.#send(path, body)).json
  }

  /** The response's JSON as it was sent, with its entity tag. Rejects like `ask`. */
  async text(path: string): Promise<{ text: string; etag: string | undefined }> {
    const { text, response } = await this.#send(path)
    return { text, etag: response.headers.etag }
  }

  async #send(path: string, body?: object): Promise<{ response: HttpResponse; text: string; json: unknown }> {
    const address = new URL(path, this.#base)
    const client = new HttpClient()
    const exchange = {
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      timeoutMs,
      maxBytes,
    }
    let response: HttpResponse
    try {
      response = await client.send(address, exchange)
      for (let tries = 1; response.status === 429 && tries < maxTries; tries++) {
        const pauseMs = retryAfterMs(response.headers['retry-after'], Date.now()) ?? 1_000
        await delay(Math.min(pauseMs, maxPauseMs))
        response = await client.send(address, exchange)
      }
    } catch (cause) {
      throw new AdminError(`${this.#base.origin}: ${messageOf(cause)}`, { cause })
    } finally {
      await client.close()
    }
    const text = response.bytes.toString('utf8')
    const json = jsonOf(text)
    if (response.status === 200 && json !== undefined) return { response, text, json }
    const { status } = response
    const isRedirect = status >= 300 && status < 400
    const reason = isRedirect ? 'a redirect, which is not followed' : 'not from a gateway'
    throw new AdminError(refusalIn(json) ?? `${address.href}: HTTP ${status}, ${reason}`)
  }
}

function baseOf(url: string): URL {
  const base = isUrl(url) ? new URL(url.endsWith('/') ? url : `${url}/`) : undefined
  if (
    base === undefined ||
    !/^https?:$/.test(base.protocol) ||
    base.username !== '' ||
    base.password !== ''
  ) {
    throw new AdminError('--admin: expected the URL of an admin listener, such as http://127.0.0.1:9090')
  }
  return base
}

/** Reads the token's file from any directory, as the user of the command names it. */
async function readToken(ref: string, place: ConstructorParameters<typeof KeyReader>[0]): Promise<string> {
  try {
    const token = await new KeyReader(place, ['/']).read(ref)
    if (/^[\x21-\x7e]+$/.test(token)) return token
  } catch (error) {
    if (!isKeyError(error)) throw error
    throw new AdminError(`the token: ${error.message}`, { cause: error })
  }
  throw new AdminError('the token: not a token: it contains white space or control characters')
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refusalIn(response: unknown): string | undefined {
  if (typeof response !== 'object' || response === null) return undefined
  const { error, message } = response as Record<string, unknown>
  return typeof error === 'string' && typeof message === 'string' ? `${error}: ${message}` : undefined
}
