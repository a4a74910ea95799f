// Locks and syncs are reliable only on a local file system, so others are refused at open.

import { AuditError } from '../format/errors.js'
import type { FileSystem } from './file-system.js'

// f_type of statfs(2), Linux magic numbers. On these, fdatasync can return before the bytes are durable on the
// server, another host can hold the file without seeing our lock, or O_APPEND is emulated.
const REMOTE = new Map<number, string>([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB2'],
  [0xff534d42, 'CIFS'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x0bd00bd0, 'Lustre'],
  [0x564c, 'NCP'],
  // FUSE does not distinguish local from remote (sshfs, s3fs, gcsfuse, virtiofs), and fsync does what its daemon
  // implements.
  [0x65735546, 'FUSE'],
])

/** @throws {AuditError} `not_local`. Checked only on Linux, whose magic numbers these are. */
export function requireLocal(port: FileSystem, dir: string): void {
  if (process.platform !== 'linux') return
  // Some platforms return a signed number.
  const name = REMOTE.get(port.statfsSync(dir).type >>> 0)
  if (name !== undefined) {
    throw new AuditError('not_local', `${dir} lies on ${name}; the audit log needs a local file system`)
  }
}
