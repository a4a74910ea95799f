// The keys that signed here, stored beside the log so that a reader without keys can check whether the log is
// consistent with itself. Call under the lock.

import { join } from 'node:path'
import { APPEND_CREATE, FILE_MODE, type FileSystem, writeFully } from '../files/file-system.js'
import { PUBLIC_KEYS_FILE } from '../format/paths.js'
import { publicKeyLine } from '../keys/public-key.js'

export function recordPublicKey(port: FileSystem, dir: string, publicKey: Uint8Array): void {
  const fd = port.openSync(join(dir, PUBLIC_KEYS_FILE), APPEND_CREATE, FILE_MODE)
  try {
    const { size } = port.fstatSync(fd)
    const content = Buffer.alloc(size)
    port.readSync(fd, content, 0, size, 0)
    const text = content.toString('utf8')
    const line = publicKeyLine(publicKey)
    if (text.split('\n').includes(line)) return
    const separator = text === '' || text.endsWith('\n') ? '' : '\n'
    writeFully(port, fd, Buffer.from(`${separator}${line}\n`))
    port.fsyncSync(fd)
  } finally {
    port.closeSync(fd)
  }
}
