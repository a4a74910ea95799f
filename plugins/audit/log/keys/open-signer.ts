// Opens the signer that a key reference names: a key file, or a key in a PKCS#11 token.

import { resolve } from 'node:path'
import type { Signer } from '@svc/core'
import { type OnWarning, pathOfKeyRef, readSeed } from './key-file.js'
import { LocalDevSigner } from './local-dev-signer.js'
import { PKCS11, parsePkcs11Uri } from './pkcs11-uri.js'

export interface OpenedSigner extends Signer {
  readonly publicKey: Uint8Array
  /** Call it after the last signature. */
  close?(): void
}

/**
 * Opens `file://PATH` or `pkcs11:…` (RFC 7512); paths are relative to `baseDir`, by default to the working directory.
 *
 * @throws {SignerKeyError} when there is no usable key there.
 */
export async function openSigner(keyRef: string, baseDir?: string): Promise<OpenedSigner> {
  if (!keyRef.startsWith(PKCS11)) return LocalDevSigner.fromKeyRef(absoluteKeyRef(keyRef, baseDir))
  const { Pkcs11Signer } = await import('./pkcs11-signer.js')
  return new Pkcs11Signer(parsePkcs11Uri(keyRef, baseDir ?? process.cwd()))
}

/** Reads a key file; of a token it checks the form of the reference alone. @throws {SignerKeyError} */
export function checkKeyRef(keyRef: string, baseDir: string, onWarning: OnWarning): void {
  if (keyRef.startsWith(PKCS11)) parsePkcs11Uri(keyRef, baseDir)
  else readSeed(pathOfKeyRef(absoluteKeyRef(keyRef, baseDir)), onWarning)
}

/** `file://./key` and `file://key` are relative to the policy's directory. */
function absoluteKeyRef(keyRef: string, baseDir: string | undefined): string {
  const file = 'file://'
  return baseDir !== undefined && keyRef.startsWith(file)
    ? file + resolve(baseDir, keyRef.slice(file.length))
    : keyRef
}
