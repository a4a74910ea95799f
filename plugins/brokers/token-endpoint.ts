// Exchanges a caller's token for one that the upstream accepts (RFC 8693). No error quotes the endpoint's response,
// because the response may contain either token.
import { HttpClient, HttpError } from '@svc/core/http-client'
import { parseJsonObject } from '@svc/core/json'
import type { BrokerInput } from './broker.js'
import { BrokerError } from './broker-error.js'
import { type ClientAuth, clientAuthOf } from './client-auth.js'
import type { BrokerConfig } from './config.js'

/** Maximum size of a response: ten times a token that lists many groups. */
const maxBytes = 64 * 1024
const tokenTypes = 'urn:ietf:params:oauth:token-type:'
const accessTokens: readonly unknown[] = [undefined, `${tokenTypes}access_token`, `${tokenTypes}jwt`]

/** RFC 6749 §5.2, RFC 8693 §2.2.2 and RFC 6750 §3.1: the only values of a response that errors repeat. */
const errorCodes: readonly unknown[] = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'invalid_scope',
  'invalid_target',
  'invalid_token',
  'unauthorized_client',
  'unsupported_grant_type',
  'access_denied',
]

export interface ExchangedToken {
  readonly token: string
  /** Seconds from the exchange; undefined if the response has no `expires_in`. */
  readonly expiresInSec: number | undefined
}

/**
 * The error if the endpoint is unreachable, which concerns every caller, or breaks the protocol, which the caller's
 * token may cause.
 */
export class TokenEndpointError extends BrokerError {
  constructor(
    message: string,
    readonly isUnreachable = false,
  ) {
    super(`the token endpoint ${message}`, 'the token endpoint is not available')
  }
}

export class TokenEndpoint {
  #config: BrokerConfig
  #authenticate: ClientAuth
  #client = new HttpClient()

  constructor(input: BrokerInput) {
    this.#config = input.config
    this.#authenticate = clientAuthOf(input)
  }

  /** Rejects with `BrokerError`; with `TokenEndpointError` if the exchange may succeed later. */
  async exchange(subjectToken: string): Promise<ExchangedToken> {
    const { headers, form } = await this.#authenticate()
    const body = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: subjectToken,
      ...formOf(this.#config),
      ...form,
    })
    const { status, text } = await this.#post(headers, body.toString())
    if (status !== 200) throw refusalOf(status, text)
    const response = parseJsonObject(text)
    if (response === undefined) throw new TokenEndpointError('did not respond with a JSON object')
    return tokenIn(response, subjectToken)
  }

  /** The timeout includes the body. Redirects are not followed, because the policy names the only trusted address. */
  async #post(
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<{ status: number; text: string }> {
    const { token_endpoint: url = '', timeout_ms: timeoutMs = 5000 } = this.#config
    try {
      const { status, bytes, isCut } = await this.#client.send(url, {
        headers: {
          ...headers,
          'content-type': 'application/x-www-form-urlencoded',
          accept: 'application/json',
        },
        body,
        timeoutMs,
        maxBytes,
      })
      if (isCut) throw new TokenEndpointError(`responded with more than ${maxBytes / 1024} KiB`)
      return { status, text: bytes.toString('utf8') }
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      if (error.code === 'TIMEOUT')
        throw new TokenEndpointError(`sent no complete response within ${timeoutMs} ms`)
      throw new TokenEndpointError(`cannot be reached (${error.code})`, true)
    }
  }
}

/** A refused request is refused with 400 or 401 (RFC 6749 §5.2); any other status is a failure of the endpoint. */
function refusalOf(status: number, text: string): BrokerError {
  if (status >= 300 && status < 400)
    return new TokenEndpointError(`responded with a redirect (${status}), which is not followed`)
  if (status !== 400 && status !== 401 && status !== 403)
    return new TokenEndpointError(`responded with ${status}`)
  const error = parseJsonObject(text)?.['error']
  const code = errorCodes.includes(error) ? String(error) : 'no known reason'
  return new BrokerError(
    `the token endpoint refused the exchange: ${status}, ${code}`,
    `the token exchange was refused (${code})`,
  )
}

function tokenIn(response: Record<string, unknown>, subjectToken: string): ExchangedToken {
  const { access_token: token, issued_token_type: issued, token_type: type, expires_in: expires } = response
  if (typeof token !== 'string' || token === '')
    throw new TokenEndpointError('responded without an access_token')
  if (!accessTokens.includes(issued))
    throw new TokenEndpointError('issued a token that is not an access token')
  // RFC 8693 §2.2.1. A DPoP token cannot be used without its key.
  if (typeof type !== 'string' || !/^(?:bearer|n_a)$/i.test(type)) {
    throw new TokenEndpointError('issued a token that is not a bearer token')
  }
  if (token === subjectToken) throw new TokenEndpointError("responded with the caller's own token")
  return { token, expiresInSec: lifetimeIn(expires) }
}

function lifetimeIn(expires: unknown): number | undefined {
  if (expires === undefined || expires === null) return undefined
  // Some servers send the number as a string.
  const seconds = typeof expires === 'string' && /^\d{1,9}$/.test(expires) ? Number(expires) : expires
  if (typeof seconds === 'number' && seconds > 0) return seconds
  throw new TokenEndpointError('responded with an expires_in that is not a number of seconds')
}

/** RFC 8693 §2.1. */
function formOf(config: BrokerConfig): Record<string, string> {
  const { audience, resource, scope, subject_token_type, requested_token_type } = config
  const given = { audience, resource, scope, requested_token_type }
  const form = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const type = subject_token_type ?? 'urn:ietf:params:oauth:token-type:access_token'
  return { subject_token_type: type, ...Object.fromEntries(form) }
}
