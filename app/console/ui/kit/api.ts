// The admin API as views use it.
import type { ApiRefusal } from '../../api.js'
import { proofOf } from './session-key.js'

/** Its `refusal` says why the API did not do it. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  constructor(readonly refusal: ApiRefusal) {
    super(refusal.message)
  }
}

export interface Api {
  /** Rejects with `ApiError`. */
  get<T>(path: string): Promise<T>
  /** The text of a response as it is. */
  text(path: string): Promise<string>
  send<T>(method: 'POST' | 'DELETE', path: string, body?: object): Promise<T>
}

interface ApiResponse {
  readonly status: number
  readonly text: string
}

/** The API for the first view of a page, which is rendered on the server; it changes nothing. */
export function readOnlyApi(ask: (path: string) => Promise<ApiResponse>): Api {
  return {
    get: async <T>(path: string) => resultOf(await ask(path)) as T,
    text: async (path) => textOf(await ask(path)),
    send: () => Promise.reject(new Error('a page changes nothing while it is rendered')),
  }
}

/** `csrf` is the token of the session; `now` returns milliseconds by the clock of the gateway. */
export function browserApi(csrf: string, now: () => number): Api {
  const ask = async (path: string, init: RequestInit): Promise<ApiResponse> => {
    let response: Response
    try {
      response = await fetch(path, { ...init, credentials: 'same-origin', redirect: 'error' })
    } catch (cause) {
      const message = 'The gateway does not respond.'
      throw Object.assign(new ApiError({ status: 0, error: 'UNREACHABLE', message }), { cause })
    }
    return { status: response.status, text: await response.text() }
  }
  return {
    get: async <T>(path: string) => resultOf(await ask(path, {})) as T,
    text: async (path) => textOf(await ask(path, {})),
    async send<T>(method: 'POST' | 'DELETE', path: string, value: object = {}) {
      const body = JSON.stringify(value)
      const proof = await proofOf(method, path, body, now())
      const headers = { 'content-type': 'application/json', 'x-svc-csrf': csrf, 'x-svc-proof': proof }
      return resultOf(await ask(path, { method, headers, body })) as T
    },
  }
}

function resultOf(response: ApiResponse): unknown {
  return JSON.parse(textOf(response))
}

function textOf({ status, text }: ApiResponse): string {
  if (status === 200) return text
  const value: Partial<ApiRefusal> = JSON.parse(text)
  const { error = 'INTERNAL', message = `HTTP status ${status}`, ...rest } = value
  throw new ApiError({ ...rest, status, error, message })
}

export function apiRefusalOf(error: unknown): ApiRefusal {
  if (error instanceof ApiError) return error.refusal
  return { status: 0, error: 'INTERNAL', message: error instanceof Error ? error.message : String(error) }
}
