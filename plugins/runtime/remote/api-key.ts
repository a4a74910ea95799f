// The key of the runtime: as the policy has it, or behind a reference that is followed anew when it is used.
import type { Clock } from '@svc/core'
import { isKeyError, type KeyReader } from '@svc/core/secret'
import { EvaluationFault } from '../fault.js'

/** A changed key is taken up after this; a busy gateway need not read a file for every call. */
const keptMs = 1000

export type ApiKey = () => Promise<string | undefined>

export function apiKeyFrom(
  { apiKey, apiKeyRef }: { apiKey?: string | undefined; apiKeyRef?: string | undefined },
  reader: KeyReader,
  clock: Clock,
): ApiKey {
  if (apiKeyRef === undefined) return () => Promise.resolve(apiKey)
  let kept: { readonly key: Promise<string>; readonly until: number } | undefined
  return () => {
    const now = clock.monotonic()
    if (kept === undefined || now >= kept.until) kept = { key: read(reader, apiKeyRef), until: now + keptMs }
    return kept.key
  }
}

async function read(reader: KeyReader, ref: string): Promise<string> {
  try {
    const key = await reader.read(ref)
    if (/^[\x21-\x7e]+$/.test(key)) return key
  } catch (cause) {
    if (!isKeyError(cause)) throw cause
    throw new EvaluationFault("the runtime's key cannot be had", 'unusable', { cause })
  }
  throw new EvaluationFault("the runtime's key holds characters that no header can carry", 'unusable')
}
