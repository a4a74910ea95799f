// `did:key`: the identifier is the key.
import type { DidMethod } from './did-method.js'
import { decodeMultikey } from './multikey.js'

const PREFIX = 'did:key:'

export const didKey: DidMethod = {
  async resolve(did) {
    const text = did.slice(PREFIX.length)
    return [{ id: `${did}#${text}`, jwk: decodeMultikey(text) }]
  },
}
