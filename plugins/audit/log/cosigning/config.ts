// The witnesses in the configuration of a log.

import { isUrl } from '@svc/core/json'
import { SignerKeyError } from '../format/errors.js'
import { parseWitnessKey } from '../keys/signatures.js'

export interface WitnessConfig {
  /** Its submission address: requests go to `<url>/add-checkpoint`. */
  readonly url: string
  /** Its verifier key, as `svc audit witness` prints it. */
  readonly key: string
}

// A note has at most 16 signatures, two of them of the log while its key changes.
const MAX_WITNESSES = 12

/** Why the witnesses cannot be used; undefined if they can. */
export function witnessError(witnesses: readonly WitnessConfig[], quorum: number): string | undefined {
  if (witnesses.length > MAX_WITNESSES) return `at most ${MAX_WITNESSES} witnesses can cosign`
  if (!Number.isSafeInteger(quorum) || quorum < 1 || quorum > witnesses.length) {
    return `the quorum is a number from 1 to ${witnesses.length}`
  }
  const ids = new Set<string>()
  for (const { url, key } of witnesses) {
    if (!isHttp(url)) return `the url of a witness is http or https, not ${url}`
    try {
      ids.add(parseWitnessKey(key).key.keyId)
    } catch (error) {
      if (error instanceof SignerKeyError) return `${url}: ${error.message}`
      throw error
    }
  }
  return ids.size === witnesses.length ? undefined : 'each witness has a key of its own'
}

function isHttp(url: string): boolean {
  return isUrl(url) && /^https?:$/.test(new URL(url).protocol)
}
