// Reads a DID document: the keys that may sign assertions.
import { isJsonObject } from '@svc/core/json'
import { decodeMultikey } from './multikey.js'
import { type PublicJwk, publicJwkOf, type VerificationKey } from './verification-key.js'

const MAX_METHODS = 50

/** @throws {Error} when the document is not that of `did` */
export function assertionKeysOf(document: unknown, did: string): VerificationKey[] {
  if (!isJsonObject(document) || document['id'] !== did) {
    throw new Error(`the document's id is not ${did}`)
  }
  const methods = new Map(
    listOf(document['verificationMethod']).flatMap((entry) => {
      const key = keyOf(entry, did)
      return key === undefined ? [] : [[key.id, key] as const]
    }),
  )
  return listOf(document['assertionMethod']).flatMap((entry) => {
    const key = typeof entry === 'string' ? methods.get(absolute(entry, did)) : keyOf(entry, did)
    return key === undefined ? [] : [key]
  })
}

function listOf(value: unknown): readonly unknown[] {
  if (value === undefined) return []
  if (!Array.isArray(value) || value.length > MAX_METHODS) {
    throw new Error(`the document's keys are not a list of at most ${MAX_METHODS}`)
  }
  return value
}

function keyOf(entry: unknown, did: string): (VerificationKey & { readonly id: string }) | undefined {
  if (!isJsonObject(entry) || typeof entry['id'] !== 'string') return undefined
  const id = absolute(entry['id'], did)
  // A key that another DID controls is not this issuer's word.
  if (!id.startsWith(`${did}#`) || (entry['controller'] ?? did) !== did) return undefined
  const jwk = jwkOf(entry)
  return jwk === undefined ? undefined : { id, jwk }
}

function jwkOf({ publicKeyJwk, publicKeyMultibase }: Record<string, unknown>): PublicJwk | undefined {
  if (publicKeyJwk !== undefined) return publicJwkOf(publicKeyJwk)
  if (typeof publicKeyMultibase !== 'string') return undefined
  try {
    return decodeMultikey(publicKeyMultibase)
  } catch {
    // A key of another type; the document may have others.
    return undefined
  }
}

function absolute(url: string, did: string): string {
  return url.startsWith('#') ? `${did}${url}` : url
}
