// Opens the signer that a key reference of a policy names: a key file.

import { resolve } from 'node:path'
import type { Signer } from '@svc/core'
import { type OnWarning, pathOfKeyRef, readSeed } from './key-file.js'
import { LocalDevSigner } from './local-dev-signer.js'

export interface OpenedSigner extends Signer {
  readonly publicKey: Uint8Array
}

/**
 * Opens `file://PATH`, which is relative to `baseDir`, by default to the working directory.
 *
 * @throws {SignerKeyError} when there is no usable key there.
 */
export function openSigner(keyRef: string, baseDir?: string): OpenedSigner {
  return LocalDevSigner.fromKeyRef(absoluteKeyRef(keyRef, baseDir))
}

/** Reads a key file. @throws {SignerKeyError} */
export function checkKeyRef(keyRef: string, baseDir: string, onWarning: OnWarning): void {
  readSeed(pathOfKeyRef(absoluteKeyRef(keyRef, baseDir)), onWarning)
}

/** `file://./key` and `file://key` are relative to the policy's directory. */
function absoluteKeyRef(keyRef: string, baseDir: string | undefined): string {
  const file = 'file://'
  return baseDir !== undefined && keyRef.startsWith(file)
    ? file + resolve(baseDir, keyRef.slice(file.length))
    : keyRef
}
