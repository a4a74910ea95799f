// Locks and syncs are reliable only on a local file system, so others are refused at open.

import { fileSystemKind } from '@svc/core/directories'
import { AuditError } from '../format/errors.js'
import type { FileSystem } from './file-system.js'

/** @throws {AuditError} `not_local`. Checked only on Linux. */
export function requireLocal(port: FileSystem, dir: string): void {
  if (process.platform !== 'linux') return
  const kind = fileSystemKind(port.statfsSync(dir).type)
  if (kind?.isLocal === false) {
    throw new AuditError('not_local', `${dir} lies on ${kind.name}; the audit log needs a local file system`)
  }
}
