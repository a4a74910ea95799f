// The signatures of passkeys in recorded votes, with the cryptography of Node.

import { createHash, type KeyObject, verify } from 'node:crypto'
import { toBase64 } from '@svc/core/json'
import { publicKeyOf } from '@svc/core/passkey'
import type { LineFailure } from '../format/check-line.js'
import { checkVote, type PasskeyCrypto } from '../format/passkey-proof.js'

export const nodePasskeys: PasskeyCrypto = {
  sha256: (bytes) => createHash('sha256').update(bytes).digest(),
  async verifies({ spki, algorithm }, signature, message) {
    const key = keyOf(spki)
    if (key === undefined) return 'bad_key'
    const digest = algorithm === 'Ed25519' ? null : 'sha256'
    return verify(digest, message, { key, dsaEncoding: 'ieee-p1363' }, signature)
  },
}

function keyOf(spki: Uint8Array): KeyObject | undefined {
  try {
    return publicKeyOf(toBase64(spki))
  } catch (error) {
    if (error instanceof Error) return undefined
    throw error
  }
}

/** An attacker with the key of the log can sign another vote, but not with the reviewer's passkey. */
export async function voteFailure(
  record: Readonly<Record<string, unknown>>,
): Promise<LineFailure | undefined> {
  const result = await checkVote(record, nodePasskeys)
  return result?.state === 'failed' ? { kind: 'bad_vote', message: result.reason } : undefined
}
