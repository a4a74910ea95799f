// Locks and syncs mean what they say only on a local file system, so others are refused at open.

import { AuditError } from '../format/errors.js'
import type { FileSystem } from './file-system.js'

// f_type of statfs(2), from the magic numbers of Linux. On these, fdatasync may return before the bytes
// are safe at the server, another host may hold the file without seeing our lock, or O_APPEND is emulated.
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
  // FUSE does not tell local from remote (sshfs, s3fs, gcsfuse, virtiofs all look alike), and fsync is
  // whatever the daemon behind it makes of it.
  [0x65735546, 'FUSE'],
])

/** @throws {AuditError} `not_local`. Checked on Linux, whose magic numbers these are. */
export function requireLocal(port: FileSystem, dir: string): void {
  if (process.platform !== 'linux') return
  // statfs gives the word signed on some platforms.
  const name = REMOTE.get(port.statfsSync(dir).type >>> 0)
  if (name !== undefined) {
    throw new AuditError('not_local', `${dir} lies on ${name}; the audit log needs a local file system`)
  }
}
