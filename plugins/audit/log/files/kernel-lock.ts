// The kernel's locks on open files, through fs-native-extensions. The first lock loads the native binding, so that
// an import of the library does not pay for it.

import { createRequire } from 'node:module'
import { FILE_MODE, type FileSystem, READ_WRITE_CREATE } from './file-system.js'

let loaded: typeof import('fs-native-extensions') | undefined

function binding(): typeof import('fs-native-extensions') {
  loaded ??= createRequire(import.meta.url)('fs-native-extensions') as typeof import('fs-native-extensions')
  return loaded
}

/** Takes the exclusive lock; false if another open file description holds it. */
export function tryLock(fd: number): boolean {
  return binding().tryLock(fd)
}

/** Resolves when the exclusive lock is taken. Waits on a thread of the process's pool. */
export function waitForLock(fd: number): Promise<void> {
  return binding().waitForLock(fd)
}

export function unlock(fd: number): void {
  binding().unlock(fd)
}

/** A file whose lock one process holds until it is released, or its holder dies. */
export class HeldLock {
  readonly #path: string
  readonly #port: FileSystem
  #fd: number | undefined

  constructor(path: string, port: FileSystem) {
    this.#path = path
    this.#port = port
  }

  get isHeld(): boolean {
    return this.#fd !== undefined
  }

  /** Takes the lock if it is free. Never waits, because a wait would occupy a thread. */
  acquire(): boolean {
    if (this.#fd !== undefined) return true
    const fd = this.#port.openSync(this.#path, READ_WRITE_CREATE, FILE_MODE)
    let isLocked = false
    try {
      isLocked = tryLock(fd)
    } finally {
      if (!isLocked) this.#port.closeSync(fd)
    }
    if (isLocked) this.#fd = fd
    return isLocked
  }

  release(): void {
    if (this.#fd !== undefined) this.#port.closeSync(this.#fd)
    this.#fd = undefined
  }
}
