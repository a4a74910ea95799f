// Hashes results in a thread of its own.
import { parseExactObject, resultDigest } from '@svc/core/json'
import { Calls } from '@svc/core/thread'

/** The methods of the thread. */
export interface DigestMethods {
  /** The digest of the `result` in the JSON of a response. */
  digest(text: string): string
}

const methods: DigestMethods = {
  digest: (text) => resultDigest(parseExactObject(text)?.['result'], text),
}

Calls.ofThread({ ...methods })
