// A token issuer under the test's control: real keys, real signatures, a real key set over HTTP on a free
// loopback port, and every error such an endpoint can have.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, type JWK } from 'jose'

export interface IssuerOptions {
  /** Signature algorithm of the keys; ES256 if not given. */
  readonly alg?: string
  readonly audience?: string
  /** Milliseconds since the epoch: the clock of `iat` and `exp`. */
  readonly now?: () => number
}

export interface SignOptions {
  /** Seconds from now; null leaves `exp` out. 300 if not given. */
  readonly expiresIn?: number | null
  /** Seconds from now; no `nbf` if not given. */
  readonly notBefore?: number
  /** Members of the protected header, over the usual `alg`, `kid` and `typ`. */
  readonly header?: Readonly<Record<string, unknown>>
  /** The key to sign with, in place of the issuer's current one. */
  readonly key?: CryptoKey | Uint8Array
}

interface IssuerKey {
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
  readonly jwk: JWK
}

type HttpResponse = (request: IncomingMessage, response: ServerResponse) => void

export class TestIssuer implements AsyncDisposable {
  readonly alg: string
  readonly audience: string
  /** Members of the key set as it is served; a test may change them. */
  keys: JWK[] = []
  /** How often the key set was asked for. */
  requests = 0

  #now: () => number
  #server: Server | undefined
  #port = 0
  #current: IssuerKey | undefined
  #serial = 0
  #response: HttpResponse | undefined
  #waiting: { count: number; resolve: () => void }[] = []

  private constructor(options: IssuerOptions) {
    this.alg = options.alg ?? 'ES256'
    this.audience = options.audience ?? 'svc-gateway'
    this.#now = options.now ?? Date.now
  }

  static async start(options: IssuerOptions = {}): Promise<TestIssuer> {
    const issuer = new TestIssuer(options)
    await issuer.rotate()
    await issuer.up()
    return issuer
  }

  get issuer(): string {
    return `http://127.0.0.1:${this.#port}/`
  }

  get jwksUri(): string {
    return `${this.issuer}jwks`
  }

  /** What `authn.oidc` needs to trust this issuer. */
  get oidc(): { issuer: string; audience: string; jwks_uri: string } {
    return { issuer: this.issuer, audience: this.audience, jwks_uri: this.jwksUri }
  }

  /** The key that signs now. */
  get key(): IssuerKey {
    if (this.#current === undefined) throw new Error('the issuer has no key yet')
    return this.#current
  }

  /** A signed token: tenant `acme`, user `ada@example.com`, subject `ada`, with `claims` over these; undefined leaves one out. */
  async sign(claims: Record<string, unknown> = {}, options: SignOptions = {}): Promise<string> {
    const now = Math.floor(this.#now() / 1000)
    const { expiresIn = 300, notBefore, header, key } = options
    const payload = {
      iss: this.issuer,
      aud: this.audience,
      sub: 'ada',
      email: 'ada@example.com',
      org: 'acme',
      iat: now,
      ...(expiresIn === null ? {} : { exp: now + expiresIn }),
      ...(notBefore === undefined ? {} : { nbf: now + notBefore }),
      ...claims,
    }
    return new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
      .setProtectedHeader({ alg: this.alg, kid: this.key.kid, typ: 'JWT', ...header })
      .sign(key ?? this.key.privateKey)
  }

  /** Signs with a fresh key from now on; the old one leaves the key set unless `keep` is set. */
  async rotate({ keep = false }: { keep?: boolean } = {}): Promise<void> {
    const { privateKey, publicKey } = await generateKeyPair(this.alg, { extractable: true })
    const kid = `key-${++this.#serial}`
    const jwk = { ...(await exportJWK(publicKey)), kid, alg: this.alg, use: 'sig' }
    this.#current = { kid, privateKey, publicKey, jwk }
    this.keys = keep ? [...this.keys, jwk] : [jwk]
  }

  /** Responds to requests for the key set in the test's own way; without an argument, properly again. */
  response(response?: HttpResponse): void {
    this.#response = response
  }

  /** Resolves when the key set has been asked for `count` times in all. */
  asked(count: number): Promise<void> {
    if (this.requests >= count) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ count, resolve }))
  }

  /** Listens, on the same port as before if there was one. */
  async up(): Promise<void> {
    const server = createServer((request, response) => this.#serve(request, response))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  /** Refuses connections until `up()`. */
  async down(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (server === undefined) return
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.down()
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    this.requests++
    const due = this.#waiting.filter(({ count }) => count <= this.requests)
    this.#waiting = this.#waiting.filter(({ count }) => count > this.requests)
    if (this.#response !== undefined) this.#response(request, response)
    else if (request.url === '/jwks') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: this.keys }))
    } else response.writeHead(404).end()
    for (const { resolve } of due) resolve()
  }
}
