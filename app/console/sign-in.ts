// Signs people in at the issuer of the policy: authorization code with PKCE (RFC 7636). The access token is judged as that of a
// call is, and not kept.
import type { IncomingHttpHeaders } from 'node:http'
import { type Clock, type Identity, Refusal, resolveOptional, services } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl, messageOf } from '@svc/core/json'
import { cachedFor } from '@svc/core/secret'
import type { Configuration } from 'openid-client'
import { z } from 'zod'
import type { AdminExchange } from '../admin/client.js'
import { sessionKeySchema } from '../admin/session.js'
import { cookieIn, type Sealing } from './sealing.js'
import { attributes } from './sessions.js'

/** Time for the pages of the issuer, in milliseconds. */
const SIGN_IN_MS = 600_000
export const CALLBACK_PATH = '/console/callback'

/** The request by which the page begins a sign-in. */
export const beginSchema = z.strictObject({
  /** The page of the console that is shown afterwards; default: its first. */
  path: z
    .string()
    .max(4_096)
    .regex(/^\/console(?!.*\/\.)(?:[/?][!-[\]-~]*)?$/)
    .catch('/console'),
})

/**
 * The request of the page to which the issuer redirects. It names the key of this browser: a key in the cookie could be that of
 * an attacker, because programs on other ports of the host can set the cookie of their own sign-in here.
 */
export const finishSchema = z.strictObject({ key: sessionKeySchema, query: z.string().max(8_192) })

const pendingSchema = z.object({ state: z.string(), verifier: z.string(), path: z.string(), at: z.number() })

type PendingSignIn = z.output<typeof pendingSchema>

/** Milliseconds for which the issuer's metadata is kept. */
const DISCOVERED_MS = 300_000
/** Seconds. */
const ISSUER_TIMEOUT = 10
/** Requests to the issuer at one time: any client that reaches the listener can cause one. */
const MAX_RUNNING = 16

export class ConsoleSignIn {
  #sealing: Sealing
  #cookie: string
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #running = 0
  /** It is kept for the last issuer and client only. */
  #discovered: { readonly of: string; read(): Promise<Configuration> } | undefined

  constructor(sealing: Sealing, cookie: string, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#sealing = sealing
    this.#cookie = cookie
    this.#clock = clock
  }

  /** The URL at the issuer, and the `Set-Cookie` header with the values that the end needs. Rejects with `Refusal`. */
  async begin(
    { path }: z.output<typeof beginSchema>,
    origin: string,
    exchange: AdminExchange,
  ): Promise<{ readonly url: string; readonly cookie: string }> {
    const client = await import('openid-client')
    const { config, resource } = await this.#client(exchange)
    const [verifier, state] = [client.randomPKCECodeVerifier(), client.randomState()]
    const url = client.buildAuthorizationUrl(config, {
      redirect_uri: origin + CALLBACK_PATH,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      scope: 'openid',
      state,
      ...resource,
    })
    const pending: PendingSignIn = { state, verifier, path, at: this.#clock.now() }
    const sealed = this.#sealing.seal(this.#cookie, pending)
    const cookie = `${this.#cookie}=${sealed}; ${attributes}; Max-Age=${SIGN_IN_MS / 1000}`
    return { url: url.href, cookie }
  }

  /** The sign-in that this browser has begun. @throws {Refusal} */
  pending(headers: IncomingHttpHeaders): PendingSignIn {
    const sealed = cookieIn(headers.cookie, this.#cookie)
    const opened = sealed === undefined ? undefined : this.#sealing.open(this.#cookie, sealed)
    const pending = pendingSchema.safeParse(opened).data
    if (pending !== undefined && this.#clock.now() - pending.at <= SIGN_IN_MS) return pending
    throw new Refusal('UNAUTHENTICATED', 'No sign-in is under way in this browser; begin again.')
  }

  /** `url` is that of the callback, with the code. Rejects with `Refusal`. */
  async finish(url: URL, { verifier, state }: PendingSignIn, exchange: AdminExchange): Promise<Identity> {
    const client = await import('openid-client')
    const { config, resource } = await this.#client(exchange)
    const checks = { pkceCodeVerifier: verifier, expectedState: state }
    if (this.#running >= MAX_RUNNING) throw new Refusal('RATE_LIMITED', 'Too many sign-ins; try again.')
    this.#running++
    let token: string
    try {
      token = (await client.authorizationCodeGrant(config, url, checks, resource)).access_token
    } catch (cause) {
      throw new Refusal('UNAUTHENTICATED', `The issuer did not sign you in: ${messageOf(cause)}`, { cause })
    } finally {
      this.#running--
    }
    const identify = resolveOptional(exchange.policy.container, services.identify)
    const identity = await identify?.({ authorization: `Bearer ${token}` })
    if (identity?.authenticated !== true) throw new Refusal('UNAUTHENTICATED', 'The policy knows no users.')
    return identity
  }

  /** The `Set-Cookie` header after the end. */
  get cleared(): string {
    return `${this.#cookie}=; ${attributes}; Max-Age=0`
  }

  async #client({ policy, authorizer }: AdminExchange) {
    const found = resolveOptional(policy.container, services.signIn)
    const { clientId } = authorizer
    if (found === undefined || clientId === undefined) {
      throw new Refusal('TARGET_NOT_FOUND', 'Nobody signs in at an issuer here: set admin.console.clientId.')
    }
    try {
      const config = await this.#discover(found.issuer, clientId)
      const isAddress = isUrl(found.audience) && /^https?:/.test(found.audience)
      return { config, resource: isAddress ? { resource: found.audience } : {} }
    } catch (cause) {
      throw new Refusal('STORE_UNAVAILABLE', 'The issuer does not respond; try again later.', { cause })
    }
  }

  #discover(issuer: string, clientId: string): Promise<Configuration> {
    const of = JSON.stringify([issuer, clientId])
    if (this.#discovered?.of !== of) {
      const read = cachedFor(DISCOVERED_MS, this.#clock, async () => {
        const client = await import('openid-client')
        const url = new URL(issuer)
        const execute = isLoopbackHost(url.hostname) ? [client.allowInsecureRequests] : []
        const options = { execute, timeout: ISSUER_TIMEOUT }
        return client.discovery(url, clientId, undefined, client.None(), options)
      })
      this.#discovered = { of, read }
    }
    return this.#discovered.read()
  }
}
