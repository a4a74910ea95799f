// The key that `audit.signer.keyRef` names.
import { resolve } from 'node:path'
import type { Signer } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { AuditConfig } from './config.js'
import { type OnWarning, pathOfKeyRef, readSeed } from './log/keys/key-file.js'
import { LocalDevSigner } from './log/keys/local-dev-signer.js'

export const missingSigner =
  'is missing; name a key file as file://PATH (`npx svc-sdk keys generate --out FILE` makes one)'

/** Why the key file cannot be used; undefined if it can. Reads it. `onWarning` learns that others may read it. */
export function keyError(
  keyRef: string,
  baseDir: string,
  onWarning: OnWarning = () => undefined,
): string | undefined {
  try {
    readSeed(pathOfKeyRef(absoluteKeyRef(keyRef, baseDir)), onWarning)
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

export function signerOf({ signer }: AuditConfig, { baseDir }: { readonly baseDir: string }): Signer {
  if (signer?.keyRef === undefined) throw new Error(`audit.signer.keyRef ${missingSigner}`)
  return LocalDevSigner.fromKeyRef(absoluteKeyRef(signer.keyRef, baseDir))
}

/** The former signer, whose key is being retired. */
export function retiringSignerOf(
  { signer }: AuditConfig,
  { baseDir }: { readonly baseDir: string },
): Signer | undefined {
  if (signer?.retiringKeyRef === undefined) return undefined
  return LocalDevSigner.fromKeyRef(absoluteKeyRef(signer.retiringKeyRef, baseDir))
}

/** `file://./key` and `file://key` are relative to the policy's directory. */
function absoluteKeyRef(keyRef: string, baseDir: string): string {
  return `file://${resolve(baseDir, keyRef.slice('file://'.length))}`
}
