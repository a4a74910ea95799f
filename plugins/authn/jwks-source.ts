// Where the issuer's key set comes from: a port, and its default over HTTP.
import { token } from '@svc/core'
import { type Dispatcher, request } from 'undici'

/**
 * Fetches a key set. Bind `jwksSource` to take it from elsewhere: a file, a mesh, a proxy that needs a
 * login. Caching, cool-down, time limit and the choice of keys stay with the plugin.
 */
export interface JwksSource {
  /**
   * The JWK Set document (RFC 7517 §5), parsed but not judged. Rejects when it cannot be had; `signal`
   * fires when nobody waits any longer.
   */
  load(uri: string, signal: AbortSignal): Promise<unknown>
}

export const jwksSource = token<JwksSource>('authn/JwksSource')

/** A key set of 100 RSA keys with certificates is under this. */
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
      // Fetches are minutes apart: an idle connection would only go stale.
      reset: true,
      signal,
      ...(this.#dispatcher === undefined ? {} : { dispatcher: this.#dispatcher }),
    })
    // Redirects are not followed: the policy names the one address that is trusted.
    if (statusCode !== 200) {
      await body.dump({ limit: 1 })
      throw new Error(`the key set's address answered ${statusCode}`)
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
      throw new Error("the key set's address did not answer with JSON", { cause })
    }
  }
}
