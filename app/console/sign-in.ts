// Signs people in at the issuer of the policy: authorization code with PKCE (RFC 7636). The access token is judged as that of a
// call is, and not kept.
import type { IncomingHttpHeaders } from 'node:http'
import { type Clock, type Identity, Refusal, resolveOptional, services } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl, messageOf } from '@svc/core/json'
import { z } from 'zod'
import type { AdminExchange } from '../admin/handler.js'
import { type SessionKey, sessionKeySchema } from '../admin/session.js'
import { cookieIn, type Sealing } from './sealing.js'

/** Time for the pages of the issuer, in milliseconds. */
const SIGN_IN_MS = 600_000
export const CALLBACK_PATH = '/console/callback'

/** What the page sends that begins it. */
export const beginSchema = z.strictObject({
  key: sessionKeySchema,
  /** Where to go afterwards. */
  path: z.string().regex(/^\/console(?:\/[\w/-]*)?(?:\?[\w=&%.+-]*)?$/),
})

const pendingSchema = z.object({
  state: z.string(),
  verifier: z.string(),
  key: sessionKeySchema,
  path: z.string(),
  at: z.number(),
})

interface SignedIn {
  readonly identity: Identity
  readonly key: SessionKey
  readonly path: string
}

export class ConsoleSignIn {
  #sealing: Sealing
  #cookie: string
  #clock: Pick<Clock, 'now'>

  constructor(sealing: Sealing, cookie: string, clock: Pick<Clock, 'now'>) {
    this.#sealing = sealing
    this.#cookie = cookie
    this.#clock = clock
  }

  /** The URL at the issuer, and the `Set-Cookie` header with what the callback needs. Rejects with `Refusal`. */
  async begin(
    { key, path }: z.output<typeof beginSchema>,
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
    const sealed = this.#sealing.seal({ state, verifier, key, path, at: this.#clock.now() })
    // The issuer sends the browser back from another site, with which a strict cookie does not come.
    const cookie = `${this.#cookie}=${sealed}; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=${SIGN_IN_MS / 1000}`
    return { url: url.href, cookie }
  }

  /** `url` is that of the callback, with the code. Rejects with `Refusal`. */
  async finish(url: URL, headers: IncomingHttpHeaders, exchange: AdminExchange): Promise<SignedIn> {
    const sealed = cookieIn(headers.cookie, this.#cookie)
    const pending = pendingSchema.safeParse(
      sealed === undefined ? undefined : this.#sealing.open(sealed),
    ).data
    if (pending === undefined || this.#clock.now() - pending.at > SIGN_IN_MS) {
      throw new Refusal('UNAUTHENTICATED', 'No sign-in is under way in this browser; begin again.')
    }
    const client = await import('openid-client')
    const { config, resource } = await this.#client(exchange)
    const checks = { pkceCodeVerifier: pending.verifier, expectedState: pending.state }
    let token: string
    try {
      token = (await client.authorizationCodeGrant(config, url, checks, resource)).access_token
    } catch (cause) {
      throw new Refusal('UNAUTHENTICATED', `The issuer did not sign you in: ${messageOf(cause)}`, { cause })
    }
    const identify = resolveOptional(exchange.policy.container, services.identify)
    const identity = await identify?.({ authorization: `Bearer ${token}` })
    if (identity?.authenticated !== true) throw new Refusal('UNAUTHENTICATED', 'The policy knows no users.')
    return { identity, key: pending.key, path: pending.path }
  }

  /** The `Set-Cookie` header after the callback. */
  get cleared(): string {
    return `${this.#cookie}=; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=0`
  }

  async #client({ policy, authorizer }: AdminExchange) {
    const found = resolveOptional(policy.container, services.signIn)
    const { clientId } = authorizer
    if (found === undefined || clientId === undefined) {
      throw new Refusal('TARGET_NOT_FOUND', 'Nobody signs in at an issuer here: set admin.console.clientId.')
    }
    const client = await import('openid-client')
    const issuer = new URL(found.issuer)
    const options = isLoopbackHost(issuer.hostname) ? { execute: [client.allowInsecureRequests] } : {}
    try {
      const config = await client.discovery(issuer, clientId, undefined, client.None(), options)
      const isAddress = isUrl(found.audience) && /^https?:/.test(found.audience)
      return { config, resource: isAddress ? { resource: found.audience } : {} }
    } catch (cause) {
      throw new Refusal('STORE_UNAVAILABLE', 'The issuer does not respond; try again later.', { cause })
    }
  }
}
