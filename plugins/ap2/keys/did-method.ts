// DID methods: the interface, the token for methods of users, and the methods whose identifier is the key.
import { token } from '@svc/core'
import { parseJson } from '@svc/core/json'
import { decodeMultikey, publicJwkOf, type VerificationKey } from './verification-key.js'

/** Resolves the DIDs of one method (W3C DID Core). */
export interface DidMethod {
  /** The keys in the relationship `assertionMethod`. Rejects when the DID cannot be resolved. */
  resolve(did: string): Promise<readonly VerificationKey[]>
  /**
   * Resolves again if a token names a key that `resolve` did not return; undefined if the method has no cache, or has
   * resolved a short time ago.
   */
  refresh?(did: string): Promise<readonly VerificationKey[]> | undefined
}

/**
 * DID methods of users, by name such as `ebsi`, beside `key`, `jwk` and `web`; a method with one of these names
 * replaces it.
 */
export const didMethods = token<Readonly<Record<string, DidMethod>>>('ap2/DidMethods')

/** The method of a DID or of a DID URL; undefined for other text (W3C DID Core §3.1). */
export function methodOf(did: string): string | undefined {
  return /^did:([a-z0-9]+):[A-Za-z0-9._:%-]+$/.exec(did)?.[1]
}

/** The DID of a DID URL with a fragment; undefined for other text. */
export function didOfUrl(url: string): string | undefined {
  const did = url.slice(0, Math.max(0, url.indexOf('#')))
  return methodOf(did) === undefined ? undefined : did
}

export const didKey: DidMethod = {
  async resolve(did) {
    const text = did.slice('did:key:'.length)
    return [{ id: `${did}#${text}`, jwk: decodeMultikey(text) }]
  },
}

const MAX_TEXT = 2048

export const didJwk: DidMethod = {
  async resolve(did) {
    const text = did.slice('did:jwk:'.length)
    if (text.length > MAX_TEXT) throw new Error(`the identifier is longer than ${MAX_TEXT} characters`)
    const jwk = publicJwkOf(parseJson(Buffer.from(text, 'base64url')))
    if (jwk === undefined) throw new Error('the identifier is not a public key for signatures')
    return [{ id: `${did}#0`, jwk }]
  },
}
