// `did:jwk`: the identifier is a public JWK in base64url.
import { parseJson } from '@svc/core/json'
import type { DidMethod } from './did-method.js'
import { publicJwkOf } from './verification-key.js'

const PREFIX = 'did:jwk:'
const MAX_TEXT = 2048

export const didJwk: DidMethod = {
  async resolve(did) {
    const text = did.slice(PREFIX.length)
    if (text.length > MAX_TEXT) throw new Error(`the identifier is longer than ${MAX_TEXT} characters`)
    const jwk = publicJwkOf(parseJson(Buffer.from(text, 'base64url')))
    if (jwk === undefined) throw new Error('the identifier is no public key for signatures')
    return [{ id: `${did}#0`, jwk }]
  },
}
