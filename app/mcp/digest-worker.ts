// Hashes results in a thread of its own.
import { canonicalize, sha256Hex } from '@svc/core/json'
import { Calls } from '@svc/core/thread'

/** The methods of the thread. */
export interface DigestMethods {
  /** SHA-256 of the canonical `result` in the JSON of a response. */
  digest(text: string): string
}

const methods: DigestMethods = {
  digest: (text) => sha256Hex(canonicalize((JSON.parse(text) as { result: unknown }).result)),
}

Calls.ofThread({ ...methods })
