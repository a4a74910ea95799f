// The digest of a definition: SHA-256 over the canonical JSON of the whole value, unknown members included.
import type { DefinitionKind, ReceivedDefinition } from '@svc/core'
import { CanonicalJsonError, canonicalizeExact, sha256Hex, stringifyJson } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'

export type Definition = ReceivedDefinition & { readonly kind: DefinitionKind }

export interface Digested {
  readonly received: Definition
  /** Undefined if the definition is too large, or has no canonical form. */
  readonly sha256: string | undefined
}

/** Bytes of a definition that is kept, in the store and in its record. */
const maxBytes = 65_536
/** Digests that are kept by the text of the definition, with at most this number of characters. */
const maxKept = 10_000
const maxKeptLength = 2_048

export class Digests {
  /** A page that changes usually has most of the definitions that it had before: their texts are compared, and not hashed again. */
  #kept = new BoundedMap<string, string>(maxKept)

  of(received: Definition): Digested {
    const sent = stringifyJson(received.value)
    if (sent.length > maxBytes) return { received, sha256: undefined }
    const known = this.#kept.get(sent)
    if (known !== undefined) return { received, sha256: known }
    const text = canonicalOf(received.value)
    if (text === undefined || Buffer.byteLength(text) > maxBytes) return { received, sha256: undefined }
    const sha256 = sha256Hex(text)
    if (sent.length <= maxKeptLength) this.#kept.set(sent, sha256)
    return { received, sha256 }
  }
}

/** Undefined for text that is not Unicode, which has no canonical form. */
function canonicalOf(value: unknown): string | undefined {
  try {
    return canonicalizeExact(value).text
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined
    throw error
  }
}
