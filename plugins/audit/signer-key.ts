// The key that `audit.signer.keyRef` names.
import { messageOf } from '@svc/core/json'
import type { OnWarning } from './log/keys/key-file.js'
import { checkKeyRef } from './log/keys/open-signer.js'

export const missingSigner =
  'is missing; name a key file as file://PATH (`npx svc-sdk keys generate --out FILE` makes one)'

/**
 * Why the key cannot be used; undefined if it can. Reads a key file. `onWarning` learns that others may
 * read the file.
 */
export function keyError(
  keyRef: string,
  baseDir: string,
  onWarning: OnWarning = () => undefined,
): string | undefined {
  try {
    checkKeyRef(keyRef, baseDir, onWarning)
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}
