// The admin API as views use it.
import type { ApiRefusal } from '../../api.js'

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
  send<T>(method: 'POST' | 'DELETE', path: string, body?: object): Promise<T>
}

interface ApiResponse {
  readonly status: number
  readonly value: unknown
}

/** For the first view of a page, rendered on the server; nothing is changed there. */
export function readOnlyApi(ask: (path: string) => Promise<ApiResponse>): Api {
  return {
    get: async <T>(path: string) => resultOf(await ask(path)) as T,
    send: () => Promise.reject(new Error('a page changes nothing while it is rendered')),
  }
}

/** `csrf` is the token of the session. */
export function browserApi(csrf: string): Api {
  const ask = async (path: string, init: RequestInit): Promise<unknown> => {
    let response: Response
    try {
      response = await fetch(path, { ...init, credentials: 'same-origin', redirect: 'error' })
    } catch (cause) {
      const message = 'The gateway does not respond.'
      throw Object.assign(new ApiError({ status: 0, error: 'UNREACHABLE', message }), { cause })
    }
    const text = await response.text()
    return resultOf({ status: response.status, value: text === '' ? {} : JSON.parse(text) })
  }
  return {
    get: async <T>(path: string) => (await ask(path, {})) as T,
    send: async <T>(method: 'POST' | 'DELETE', path: string, body: object = {}) =>
      (await ask(path, {
        method,
        headers: { 'content-type': 'application/json', 'x-svc-csrf': csrf },
        body: JSON.stringify(body),
      })) as T,
  }
}

function resultOf({ status, value }: ApiResponse): unknown {
  if (status === 200) return value
  const { error = 'INTERNAL', message = `HTTP status ${status}`, ...rest } = value as Partial<ApiRefusal>
  throw new ApiError({ ...rest, status, error, message })
}

export function apiRefusalOf(error: unknown): ApiRefusal {
  if (error instanceof ApiError) return error.refusal
  return { status: 0, error: 'INTERNAL', message: error instanceof Error ? error.message : String(error) }
}
