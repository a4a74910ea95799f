// Every policy that was in force, in files beside the log. A record has the hash of its policy, which is the name of the
// file and the hash of its content: readers need no index, and do not believe a file that was changed.
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import {
  CREATE_NEW,
  DIRECTORY_MODE,
  type FileSystem,
  nodeFileSystem,
  readTextFile,
  syncDirectorySync,
  withFile,
  writeFully,
} from './file-system.js'

const FOLDER = 'policies'

/** The file of a kept policy, relative to the directory of the log. */
export function keptPolicyFile(sha256: string): string {
  return `${FOLDER}/${sha256}.yaml`
}

/**
 * Writes the text of a policy once. Several processes may do so at the same time; a crash leaves the whole file or none.
 * Throws system errors.
 */
export function keepPolicy(port: FileSystem, dir: string, text: string): void {
  const sha256 = sha256Hex(text)
  if (keptText(port, dir, sha256) !== undefined) return
  const path = join(dir, keptPolicyFile(sha256))
  const made = port.mkdirSync(dirname(path), { recursive: true, mode: DIRECTORY_MODE })
  if (made !== undefined) syncDirectorySync(port, dirname(made))
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  try {
    withFile(port, temporary, CREATE_NEW, (fd) => {
      writeFully(port, fd, Buffer.from(text))
      port.fsyncSync(fd)
    })
    port.renameSync(temporary, path)
  } catch (error) {
    port.rmSync(temporary, { recursive: false, force: true })
    throw error
  }
  syncDirectorySync(port, dirname(path))
}

/** The text of the policy with this hash; undefined if it was not kept, or was changed. Throws system errors. */
export function readKeptPolicy(dir: string, sha256: string): string | undefined {
  return keptText(nodeFileSystem, dir, sha256)
}

function keptText(port: FileSystem, dir: string, sha256: string): string | undefined {
  // The hash of a record that is not verified may name another path.
  if (!/^[0-9a-f]{64}$/.test(sha256)) return undefined
  const text = readTextFile(port, join(dir, keptPolicyFile(sha256)))
  return text !== undefined && sha256Hex(text) === sha256 ? text : undefined
}
