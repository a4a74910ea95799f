// One exchange of a caller's token for one that an upstream takes (RFC 8693). Nothing that the endpoint says is
// quoted anywhere: an answer may hold either token.
import { jsonObjectIn } from '@svc/core/json'
import { type Dispatcher, request } from 'undici'
import type { ClientAuth } from './client-auth.js'
import { BrokerFault } from './fault.js'

/** A token with all the groups of its user is a tenth of this. */
const maxBytes = 64 * 1024
const tokenTypes = 'urn:ietf:params:oauth:token-type:'
const accessTokens: readonly unknown[] = [undefined, `${tokenTypes}access_token`, `${tokenTypes}jwt`]

/** RFC 6749 §5.2, RFC 8693 §2.2.2 and RFC 6750 §3.1: the only words of an answer that are repeated. */
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
  /** Seconds from the exchange; undefined where the endpoint does not say. */
  readonly expiresInSec: number | undefined
}

/** The endpoint could not be asked, or broke the protocol: no token could be had for anyone. */
export class EndpointDown extends BrokerFault {
  constructor(message: string) {
    super(`the token endpoint ${message}`, 'the token endpoint cannot be used now')
  }
}

export interface TokenEndpointOptions {
  readonly url: string
  /** What every exchange asks for: audience, resource, scope, token types. */
  readonly form: Readonly<Record<string, string>>
  readonly timeoutMs: number
}

export class TokenEndpoint {
  #options: TokenEndpointOptions
  #auth: ClientAuth

  constructor(options: TokenEndpointOptions, auth: ClientAuth) {
    this.#options = options
    this.#auth = auth
  }

  /** Rejects with `BrokerFault`; with `EndpointDown` where the fault is not this caller's. */
  async exchange(subjectToken: string): Promise<ExchangedToken> {
    const { headers, form } = await this.#auth.prove()
    const body = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: subjectToken,
      ...this.#options.form,
      ...form,
    })
    const { status, text } = await this.#post(headers, body.toString())
    if (status !== 200) throw refusalOf(status, text)
    const answer = jsonObjectIn(text)
    if (answer === undefined) throw new EndpointDown('did not answer with a JSON object')
    return tokenIn(answer, subjectToken)
  }

  /** Within the time limit, the body included. Redirects are not followed: the policy names the one address. */
  async #post(
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<{ status: number; text: string }> {
    const { url, timeoutMs } = this.#options
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      const answer = await request(url, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/x-www-form-urlencoded',
          accept: 'application/json',
        },
        body,
        // Exchanges are far apart: an idle connection would only go stale.
        reset: true,
        signal,
      })
      return { status: answer.statusCode, text: await textOf(answer.body) }
    } catch (fault) {
      if (fault instanceof BrokerFault) throw fault
      if (signal.aborted) throw new EndpointDown(`gave no whole answer within ${timeoutMs} ms`)
      // The cause is left out, as what an HTTP client knows of a request holds its secrets.
      const code = fault instanceof Error && 'code' in fault ? String(fault.code) : 'unknown fault'
      throw new EndpointDown(`cannot be reached (${code})`)
    }
  }
}

async function textOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw new EndpointDown(`answered with more than ${maxBytes / 1024} KiB`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** RFC 6749 §5.2 answers 400 or 401 to a request that it judged; anything else is the endpoint's own trouble. */
function refusalOf(status: number, text: string): BrokerFault {
  if (status >= 300 && status < 400) return new EndpointDown(`redirects (${status}), and is not followed`)
  if (status !== 400 && status !== 401 && status !== 403) return new EndpointDown(`answered ${status}`)
  const error = jsonObjectIn(text)?.['error']
  const code = errorCodes.includes(error) ? String(error) : 'no known reason'
  return new BrokerFault(
    `the token endpoint refused the exchange: ${status}, ${code}`,
    `the token exchange was refused (${code})`,
  )
}

function tokenIn(answer: Record<string, unknown>, subjectToken: string): ExchangedToken {
  const { access_token: token, issued_token_type: issued, token_type: type, expires_in: expires } = answer
  if (typeof token !== 'string' || token === '') throw new EndpointDown('answered without an access_token')
  if (!accessTokens.includes(issued)) throw new EndpointDown('issued a token that is no access token')
  // RFC 8693 §2.2.1; a DPoP token is of no use to whoever lacks its key.
  if (typeof type !== 'string' || !/^(?:bearer|n_a)$/i.test(type)) {
    throw new EndpointDown('issued a token that is no bearer token')
  }
  if (token === subjectToken) throw new EndpointDown("answered with the caller's own token")
  return { token, expiresInSec: lifetimeIn(expires) }
}

function lifetimeIn(expires: unknown): number | undefined {
  if (expires === undefined || expires === null) return undefined
  // Some servers send the number as a string.
  const seconds = typeof expires === 'string' && /^\d{1,9}$/.test(expires) ? Number(expires) : expires
  if (typeof seconds === 'number' && seconds > 0) return seconds
  throw new EndpointDown('answered with an expires_in that is no number of seconds')
}
