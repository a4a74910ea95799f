// Writes files that commands of `svc audit` and `svc keys` name: an error becomes one line.
import { writeFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError, type OpenedSigner, openSigner } from '@svc/plugin-audit/log'

/** Rejects with `AuditError`. */
export async function writeText(file: string, text: string, mode?: number): Promise<void> {
  try {
    await writeFile(file, text, { mode })
  } catch (cause) {
    throw new AuditError('write_failed', `cannot write ${file}: ${messageOf(cause)}`, cause)
  }
}

/** The signer of a key file, or of a reference as in a policy. */
export function signerIn(key: string): Promise<OpenedSigner> {
  return openSigner(/^(?:file:\/\/|pkcs11:)/.test(key) ? key : `file://${encodeURIComponent(key)}`)
}
