// One process uploads a directory at a time. The lock is the kernel's and belongs to an open file, so it
// is free the moment its holder dies; whoever asks next goes on from the state file.

import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { FILE_MODE } from '../files/file-system.js'
import { tryLock } from '../files/kernel-lock.js'

const UPLOAD_LOCK_FILE = '.svc-upload-lock'

export class UploadLock {
  readonly #path: string
  #fd: number | undefined

  constructor(dir: string) {
    this.#path = join(dir, UPLOAD_LOCK_FILE)
  }

  /** Takes the lock where it is free, for the life of this object. Never waits: a thread would be stuck in it. */
  acquire(): boolean {
    if (this.#fd !== undefined) return true
    const fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, FILE_MODE)
    let isOurs = false
    try {
      isOurs = tryLock(fd)
    } finally {
      if (!isOurs) closeSync(fd)
    }
    if (isOurs) this.#fd = fd
    return isOurs
  }

  release(): void {
    if (this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
  }
}
