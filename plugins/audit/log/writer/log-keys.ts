// Changes the keys that a log trusts, while its writers are stopped or running: lines of the journal that a trusted key
// signs.

import { resolve as resolvePath } from 'node:path'
import type { Signer } from '@svc/core'
import { DirectoryLock } from '../files/directory-lock.js'
import { nodeFileSystem, READ } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import { publicKeyLine } from '../format/verifier.js'
import { canSignNotes, type NoteSigner, withTimeLimit } from '../keys/signatures.js'
import { retryOnConflict } from '../seal/journal-conflict.js'
import { LogTree } from '../seal/log-tree.js'
import type { TreeOptions } from '../seal/own-checkpoint.js'
import { appendSeal, sealNewLines } from '../seal/seal-round.js'
import { journalLines } from '../tree/journal-file.js'
import { DEFAULT_LIMITS, systemClock, warningLogger } from './config.js'
import { identify, recordPublicKey } from './log-identity.js'

/**
 * Makes the log trust the key of `to`, by a line that `from` signs, unless it does already. With `retire` the key
 * of `from` leaves after what is sealed with it now, so its writers must have stopped.
 *
 * @throws {AuditError} `key_refused` if `from` is not trusted; the errors of opening the log.
 */
export async function rotateKey(
  dir: string,
  { from, to, retire = false }: { readonly from: Signer; readonly to: Signer; readonly retire?: boolean },
): Promise<void> {
  const [old, next] = [noteSigner(from), noteSigner(to)]
  await changeKeys(dir, [next, old], async (tree, parts) => {
    await sealNewLines(parts, tree, (error) => parts.logger.error({ err: error }, error.message))
    const isNew = !tree.state.keys.has(next.keyId)
    const isLeaving = retire && tree.state.keys.at(old.keyId, tree.size) !== undefined
    if (!isNew && !isLeaving) return
    await tree.append({
      kind: 'key',
      ...(isNew ? { key: publicKeyLine(next.publicKey) } : {}),
      ...(isLeaving ? { retired: old.keyId, until: tree.size + 1 } : {}),
    })
    await parts.lock.run(() => recordPublicKey(parts.port, parts.dir, next.publicKey))
    // The new key signs the checkpoint of a further line: its writers then need not read the whole journal.
    await tree.checkpoint()
    await appendSeal(tree, [])
  })
}

/** The first leaf, or the instant of sealing, from which a revoked key is not trusted; default: now. */
export interface Revocation {
  readonly keyId: string
  readonly leaf?: number
  /** Milliseconds since the epoch, by the clock of the writers. */
  readonly since?: number
}

/**
 * Revokes a key, by a line that `signer`, another trusted key, signs.
 *
 * @returns the first leaf at which the key is not trusted.
 * @throws {AuditError} `key_refused` if the line would take the trust from the key that signs it.
 */
export async function revokeKey(
  dir: string,
  signer: Signer,
  { keyId, leaf, since }: Revocation,
): Promise<number> {
  return changeKeys(dir, [noteSigner(signer)], async (tree, { port, dir: at }) => {
    let until = leaf ?? tree.size
    if (leaf === undefined && since !== undefined) {
      for (const { line } of journalLines(port, at, 0, tree.journalEnd)) {
        if (line === undefined || Date.parse(line.at) >= since) break
        until = line.leaf + 1
      }
    }
    await tree.append({ kind: 'revoke', revoked: keyId, until })
    return until
  })
}

function noteSigner(signer: Signer): NoteSigner {
  const limited = withTimeLimit(signer, DEFAULT_LIMITS.signatureMs)
  if (canSignNotes(limited)) return limited
  throw new AuditError('bad_config', `the signer ${signer.keyId} has no publicKey`)
}

async function changeKeys<T>(
  path: string,
  signers: readonly NoteSigner[],
  change: (tree: LogTree, options: TreeOptions) => Promise<T>,
): Promise<T> {
  const dir = resolvePath(path)
  const port = nodeFileSystem
  // A directory without a log must not get a lock file.
  port.closeSync(port.openSync(dir, READ))
  const lock = new DirectoryLock(dir, port, systemClock)
  const parts = { dir, port, lock, logger: warningLogger, clock: systemClock, signers }
  try {
    if ((await lock.run(() => identify(parts))) === undefined) {
      throw new AuditError('not_found', `${dir} holds no log`)
    }
    return await retryOnConflict(async () => {
      const tree = await LogTree.load(parts)
      const result = await change(tree, parts)
      await tree.checkpoint()
      return result
    })
  } finally {
    lock.close()
  }
}
