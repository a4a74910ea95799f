// The API key of the runtime: literal from the policy, or read through a key reference.
import type { Clock } from '@svc/core'
import { isKeyError, type KeyReader } from '@svc/core/secret'
import { EvaluationError } from '../evaluation/error.js'

/** How long a key is cached, so that a busy gateway does not read the key file for every call. */
const cacheMs = 1000

export type ApiKeySource = () => Promise<string | undefined>

export function apiKeySource(
  { apiKey, apiKeyRef }: { apiKey?: string | undefined; apiKeyRef?: string | undefined },
  reader: KeyReader,
  clock: Clock,
): ApiKeySource {
  if (apiKeyRef === undefined) return () => Promise.resolve(apiKey)
  let cached: { readonly key: Promise<string>; readonly until: number } | undefined
  return () => {
    const now = clock.monotonic()
    if (cached === undefined || now >= cached.until) {
      cached = { key: read(reader, apiKeyRef), until: now + cacheMs }
    }
    return cached.key
  }
}

async function read(reader: KeyReader, ref: string): Promise<string> {
  try {
    const key = await reader.read(ref)
    if (/^[\x21-\x7e]+$/.test(key)) return key
  } catch (cause) {
    if (!isKeyError(cause)) throw cause
    throw new EvaluationError("the runtime's API key cannot be read", 'invalid', { cause })
  }
  throw new EvaluationError(
    "the runtime's API key contains characters that are not allowed in a header",
    'invalid',
  )
}
