// Reads and writes files that the commands of `svc audit` and `svc keys` get: an error becomes one line.
import { readFile, writeFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError, LocalDevSigner } from '@svc/plugin-audit/log'

/** `what` names the content of the file. Rejects with `AuditError`. */
export async function readTextFile(file: string, what: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the ${what} at ${file}: ${messageOf(cause)}`, cause)
  }
}

/** Rejects with `AuditError`. */
export async function writeText(file: string, text: string, mode?: number): Promise<void> {
  try {
    await writeFile(file, text, { mode })
  } catch (cause) {
    throw new AuditError('write_failed', `cannot write ${file}: ${messageOf(cause)}`, cause)
  }
}

export function signerIn(file: string): LocalDevSigner {
  return LocalDevSigner.fromKeyRef(`file://${encodeURIComponent(file)}`)
}
