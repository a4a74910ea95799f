// Writes files that commands of `svc audit` and `svc keys` name: an error becomes one line.
import { writeFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError, type OpenedSigner, openSigner } from '@svc/plugin-audit/log'
import { importModule } from '../gateway/custom-plugins.js'

/** Rejects with `AuditError`. */
export async function writeText(file: string, text: string, mode?: number): Promise<void> {
  try {
    await writeFile(file, text, { mode })
  } catch (cause) {
    throw new AuditError('write_failed', `cannot write ${file}: ${messageOf(cause)}`, cause)
  }
}

/**
 * The signer of a key file or a `file://` reference. Any other reference is opened by `openSigner(reference, directory)` of the
 * module, which is found as one of a policy is.
 */
export async function signerIn(key: string, plugin?: string): Promise<OpenedSigner> {
  if (key.startsWith('file://')) return openSigner(key)
  if (!/^[a-z][a-z0-9+.-]+:/.test(key)) return openSigner(`file://${encodeURIComponent(key)}`)
  const scheme = key.slice(0, key.indexOf(':') + 1)
  if (plugin === undefined) throw new Error(`a key ${scheme} is opened by a plugin: give --plugin MODULE`)
  const { openSigner: open } = await importModule(plugin, process.cwd())
  if (typeof open !== 'function') throw new Error(`"${plugin}" has no openSigner, so it opens no keys`)
  return open(key, process.cwd())
}
