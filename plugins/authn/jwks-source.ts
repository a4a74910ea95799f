// The source of the issuer's key set: an interface, and its default implementation over HTTP.
import { token } from '@svc/core'
import { HttpClient } from '@svc/core/http-client'

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

/** Larger than 100 RSA keys with certificates. */
const maxBytes = 256 * 1024

export class HttpJwksSource implements JwksSource {
  #client = new HttpClient()

  async load(uri: string, signal: AbortSignal): Promise<unknown> {
    const headers = { accept: 'application/jwk-set+json, application/json' }
    const { status, bytes, isCut } = await this.#client.send(uri, { headers, signal, maxBytes })
    if (status !== 200) throw new Error(`the key set's URL responded with ${status}`)
    if (isCut) throw new Error(`the key set is larger than ${maxBytes / 1024} KiB`)
    try {
      return JSON.parse(bytes.toString('utf8'))
    } catch (cause) {
      throw new Error("the key set's URL did not respond with JSON", { cause })
    }
  }
}
