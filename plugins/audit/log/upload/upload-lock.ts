// One process uploads a directory at a time. The kernel lock belongs to an open file, so it is released when its
// holder dies; the next holder continues from the state file.

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

  /** Takes the lock if it is free, until `release`. Never waits, because a wait would occupy a thread. */
  acquire(): boolean {
    if (this.#fd !== undefined) return true
    const fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, FILE_MODE)
    let isLocked = false
    try {
      isLocked = tryLock(fd)
    } finally {
      if (!isLocked) closeSync(fd)
    }
    if (isLocked) this.#fd = fd
    return isLocked
  }

  release(): void {
    if (this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
  }
}
