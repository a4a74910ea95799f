// The checkpoints from which a writer resumes: the newest of its own key, and the newest that a key of the log has signed.

import type { LockedDirectory } from '../files/directory-lock.js'
import type { Head } from '../format/checkpoint.js'
import type { LineOf } from '../format/journal-line.js'
import { isVerified } from '../format/note.js'
import { verifierFromPublicKey } from '../keys/public-key.js'
import type { NoteSigner } from '../keys/signatures.js'
import { newestCheckpoint, type StoredCheckpoint } from '../tree/checkpoint-file.js'
import { journalSize } from '../tree/journal-file.js'
import { resumedState } from '../tree/resumed-state.js'

/** The directory of a log, and the signers of its journal and checkpoints. */
export interface TreeOptions extends LockedDirectory {
  /** The writer's own signer first; then one that is being retired. Signers whose key is trusted sign. */
  readonly signers: readonly NoteSigner[]
}

/** The newest checkpoint that the writer's own key has signed. */
export function ownCheckpoint({ dir, port, signers }: TreeOptions, origin: string): Head | undefined {
  const own = signers.slice(0, 1).map(({ publicKey }) => verifierFromPublicKey(publicKey))
  return newestCheckpoint(port, dir, origin, (note) => isVerified(note, origin, own))?.head
}

/**
 * The newest checkpoint that a key of the log has signed. A process without such a key can append others, and so can the
 * thief of a former one, which the log no longer trusts for them.
 */
export async function signedCheckpoint(
  options: TreeOptions,
  genesis: LineOf<'genesis'>,
  own: Head | undefined,
): Promise<StoredCheckpoint | undefined> {
  const { dir, port, lock, signers } = options
  const { origin } = genesis
  const newest = newestCheckpoint(port, dir, origin)
  if (newest === undefined) return undefined
  if (newest.head.size === own?.size && newest.head.root === own.root) return newest
  const journal = await lock.run(() => journalSize(port, dir))
  const { state } = await resumedState(options, genesis, { head: undefined, own }, journal?.end ?? 0)
  // A journal that was cut does not know the writer's own key, which may have entered after its end.
  const ownKeys = signers
    .map(({ publicKey }) => verifierFromPublicKey(publicKey))
    .filter(({ keyId }) => !state.keys.has(keyId))
  return newestCheckpoint(port, dir, origin, (note, { size }) => {
    return isVerified(note, origin, [...state.keys.allAt(size - 1), ...ownKeys])
  })
}
