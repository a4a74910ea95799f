// Locks and syncs are reliable only on a local file system, so those that are known to be remote are refused at open.

import type { Logger } from '@svc/core'
import { fileSystemKind, fileSystemRisk } from '@svc/core/directories'
import { AuditError } from '../format/errors.js'
import type { FileSystem } from './file-system.js'

/**
 * Checked only on Linux.
 *
 * @param logger gets a warning if the file system is not known.
 * @throws {AuditError} `not_local`.
 */
export function requireLocal(port: FileSystem, dir: string, logger?: Logger): void {
  if (process.platform !== 'linux') return
  const { type } = port.statfsSync(dir)
  const kind = fileSystemKind(type)
  if (kind === undefined) {
    const magic = `0x${(type >>> 0).toString(16)}`
    logger?.warn(
      { dir, magic },
      `the audit log lies on a file system that is not known to be local, ${fileSystemRisk}`,
    )
  } else if (!kind.isLocal) {
    throw new AuditError('not_local', `${dir} lies on ${kind.name}; the audit log needs a local file system`)
  }
}
