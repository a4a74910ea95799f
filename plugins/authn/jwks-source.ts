// The source of the issuer's key set: an interface, and its default implementation over HTTP.
import { token } from '@svc/core'
import { type Dispatcher, request } from 'undici'

/**
 * Fetches a key set. Bind `jwksSource` to read it from elsewhere: a file, a service mesh, an authenticated proxy.
 * The plugin does the caching, cooldown, timeout and key selection.
 */
export interface JwksSource {
  /**
   * The JWK Set document (RFC 7517 §5), parsed and not validated. Rejects when it cannot be fetched; `signal` aborts at
   * the timeout.
   */
  load(uri: string, signal: AbortSignal): Promise<unknown>
}

export const jwksSource = token<JwksSource>('authn/JwksSource')

/** 100 RSA keys with certificates are smaller. */
const maxBytes = 256 * 1024

export class HttpJwksSource implements JwksSource {
  #dispatcher: Dispatcher | undefined

  /** `dispatcher`: an undici agent, for a proxy or a private certificate authority. */
  constructor(options: { dispatcher?: Dispatcher } = {}) {
    this.#dispatcher = options.dispatcher
  }

  async load(uri: string, signal: AbortSignal): Promise<unknown> {
    const { statusCode, body } = await request(uri, {
      headers: { accept: 'application/jwk-set+json, application/json' },
      // Fetches are minutes apart, so an idle connection would only become stale.
      reset: true,
      signal,
      ...(this.#dispatcher === undefined ? {} : { dispatcher: this.#dispatcher }),
    })
    // Redirects are not followed, because the policy names the only trusted address.
    if (statusCode !== 200) {
      await body.dump({ limit: 1 })
      throw new Error(`the key set's URL answered ${statusCode}`)
    }
    const pieces: Uint8Array[] = []
    let bytes = 0
    for await (const piece of body as AsyncIterable<Uint8Array>) {
      bytes += piece.byteLength
      if (bytes > maxBytes) throw new Error(`the key set is larger than ${maxBytes / 1024} KiB`)
      pieces.push(piece)
    }
    try {
      return JSON.parse(Buffer.concat(pieces).toString('utf8'))
    } catch (cause) {
      throw new Error("the key set's URL did not answer with JSON", { cause })
    }
  }
}
