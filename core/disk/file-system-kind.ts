// The kind of the file system of a directory, by f_type of statfs(2): Linux magic numbers.

// On these, fdatasync can return before the bytes are durable on the server, another host can hold the file without
// seeing our lock, or O_APPEND is emulated.
const remote = new Map<number, string>([
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

const local = new Map<number, string>([
  [0xef53, 'ext4'],
  [0x58465342, 'XFS'],
  [0x9123683e, 'Btrfs'],
  [0x2fc12fc1, 'ZFS'],
  [0xf2f52010, 'F2FS'],
  [0xca451a4e, 'bcachefs'],
  [0x3153464a, 'JFS'],
  [0x794c7630, 'overlayfs'],
  [0x01021994, 'tmpfs'],
])

/** The warning for remote and unknown file systems. */
export const fileSystemRisk =
  'where locks may be invisible to other hosts and a sync may return before the bytes are durable'

export interface FileSystemKind {
  readonly name: string
  /** Whether locks and syncs are reliable. */
  readonly isLocal: boolean
}

/** Undefined for a file system on neither list, and on systems other than Linux. */
export function fileSystemKind(type: number): FileSystemKind | undefined {
  if (process.platform !== 'linux') return undefined
  // Some platforms return a signed number.
  const unsigned = type >>> 0
  const name = remote.get(unsigned)
  if (name !== undefined) return { name, isLocal: false }
  const known = local.get(unsigned)
  return known === undefined ? undefined : { name: known, isLocal: true }
}
