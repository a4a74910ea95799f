// Hashes results in a thread of its own.
import { resultDigest } from '@svc/core/json'
import { Calls } from '@svc/core/thread'

/** The methods of the thread. */
export interface DigestMethods {
  /** The digest of the `result` in the JSON of a response. */
  digest(text: string): string
}

const methods: DigestMethods = {
  digest: (text) => resultDigest((JSON.parse(text) as { result: unknown }).result, text),
}

Calls.ofThread({ ...methods })
