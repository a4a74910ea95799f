// Signs the user in at the issuer: authorization code with PKCE in the browser (RFC 8252), and refresh.
import { spawn } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl, messageOf } from '@svc/core/json'
import * as client from 'openid-client'
import type { Tokens } from './token-file.js'

/** Time that the user has in the browser, in milliseconds. */
const signInMs = 300_000
const OFFLINE = 'offline_access'

export interface IssuerSettings {
  readonly issuer: string
  /** If absent, the client registers itself (RFC 7591). */
  readonly clientId: string | undefined
  /** The resource that the token is for (RFC 8707), if it has a URL. */
  readonly resource: string | undefined
  /** The port of the loopback redirect; 0 picks a free one. */
  readonly callbackPort: number
  readonly logger: Logger
}

export class SignIn {
  #settings: IssuerSettings

  constructor(settings: IssuerSettings) {
    this.#settings = settings
  }

  /** Signs the user in in the browser. Rejects if the user or the issuer refuses, or the user takes too long. */
  async tokens(scopes: readonly string[]): Promise<Tokens> {
    await using redirect = await LoopbackRedirect.open(this.#settings.callbackPort)
    const config = await this.#client(redirect.uri)
    const verifier = client.randomPKCECodeVerifier()
    const state = client.randomState()
    const { scopes_supported: supported } = config.serverMetadata()
    const offline = supported?.includes(OFFLINE) === true
    const requested = [...scopes, ...(offline ? [OFFLINE] : [])]
    const url = client.buildAuthorizationUrl(config, {
      redirect_uri: redirect.uri,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      ...(requested.length === 0 ? {} : { scope: requested.join(' ') }),
      // OpenID Connect Core §11 asks for it.
      ...(offline ? { prompt: 'consent' } : {}),
      ...this.#resource,
    })
    const arrival = redirect.arrival(state, AbortSignal.timeout(signInMs))
    await this.#show(url)
    const checks = { pkceCodeVerifier: verifier, expectedState: state }
    return this.#kept(
      config,
      await client.authorizationCodeGrant(config, await arrival, checks, this.#resource),
    )
  }

  /** Rejects if the issuer refuses. */
  async refresh({ refreshToken, clientId }: Tokens & { readonly refreshToken: string }): Promise<Tokens> {
    const config = await client.discovery(this.#issuer, clientId, undefined, client.None(), this.#options)
    const tokens = this.#kept(config, await client.refreshTokenGrant(config, refreshToken, this.#resource))
    return { refreshToken, ...tokens }
  }

  get #issuer(): URL {
    return new URL(this.#settings.issuer)
  }

  get #resource(): Record<string, string> {
    const { resource } = this.#settings
    return resource === undefined ? {} : { resource }
  }

  /** Allows plain http only on the loopback interface. */
  get #options(): client.DiscoveryRequestOptions {
    return isLoopbackHost(this.#issuer.hostname) ? { execute: [client.allowInsecureRequests] } : {}
  }

  async #client(redirectUri: string): Promise<client.Configuration> {
    const { clientId } = this.#settings
    if (clientId !== undefined) {
      return client.discovery(this.#issuer, clientId, undefined, client.None(), this.#options)
    }
    const metadata = {
      client_name: 'svc',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    }
    try {
      return await client.dynamicClientRegistration(this.#issuer, metadata, client.None(), this.#options)
    } catch (cause) {
      const remedy = 'set authn.oidc.publicClientId to a client that is registered there'
      throw new Error(`no client at ${this.#issuer.href}: ${messageOf(cause)}; ${remedy}`, { cause })
    }
  }

  async #show(url: URL): Promise<void> {
    const { logger } = this.#settings
    logger.info({ url: url.href }, 'sign in at this URL')
    try {
      await openUrl(url)
    } catch (error) {
      logger.warn({ reason: messageOf(error) }, 'no browser was opened; open the URL yourself')
    }
  }

  #kept(config: client.Configuration, response: client.TokenEndpointResponse): Tokens {
    const { access_token: accessToken, refresh_token: refreshToken, expires_in: expiresIn } = response
    return {
      accessToken,
      clientId: config.clientMetadata().client_id,
      ...(refreshToken === undefined ? {} : { refreshToken }),
      ...(expiresIn === undefined ? {} : { expiresAt: Date.now() + expiresIn * 1000 }),
    }
  }
}

/** The program and the arguments before the URL. */
const openers: Readonly<Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}
const defaultOpener = ['xdg-open'] as const

/** Opens the URL in the user's browser. Resolves when the program has started; rejects if there is none. No shell reads the URL. */
function openUrl(url: URL): Promise<void> {
  const [command, ...args] = openers[process.platform] ?? defaultOpener
  return new Promise((resolve, reject) => {
    const opener = spawn(command, [...args, url.href], { stdio: 'ignore', detached: true })
    opener.once('error', reject)
    opener.once('spawn', () => {
      opener.unref()
      resolve()
    })
  })
}

const host = '127.0.0.1'
const path = '/callback'

/**
 * The redirect URI of one sign-in: a listener on the loopback interface, to which the issuer sends the user (RFC 8252).
 */
export class LoopbackRedirect implements AsyncDisposable {
  readonly uri: string
  #server: Server

  private constructor(server: Server, port: number) {
    this.#server = server
    this.uri = `http://${host}:${port}${path}`
  }

  /** Port 0 picks a free one. Rejects if the port is taken. */
  static async open(port: number): Promise<LoopbackRedirect> {
    const server = createServer()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
    return new LoopbackRedirect(server, (server.address() as AddressInfo).port)
  }

  /** Resolves with the URL of the first request with this `state`; refuses others. Rejects with the signal's reason. */
  arrival(state: string, signal: AbortSignal): Promise<URL> {
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      this.#server.on('request', (message, response) => {
        const given = message.url ?? '/'
        // Any web page may send requests here, with targets such as `//`, which are not URLs.
        const url = new URL(isUrl(given, this.uri) ? given : '/', this.uri)
        const isExpected = url.pathname === path && url.searchParams.get('state') === state
        const isDenied = url.searchParams.has('error')
        response.writeHead(isExpected ? 200 : 400, { 'content-type': 'text/plain', connection: 'close' })
        if (!isExpected) response.end('Not expected here.\n')
        else response.end(isDenied ? 'Not signed in.\n' : 'Signed in. Close this page.\n', () => resolve(url))
      })
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    // Browsers keep connections open that they do not use.
    this.#server.closeAllConnections()
    await closed
  }
}
