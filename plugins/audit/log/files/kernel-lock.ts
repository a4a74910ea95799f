// The kernel's locks on open files, through fs-native-extensions. The first lock loads the native binding, so that
// an import of the library does not pay for it.

import { createRequire } from 'node:module'

let loaded: typeof import('fs-native-extensions') | undefined

function binding(): typeof import('fs-native-extensions') {
  loaded ??= createRequire(import.meta.url)('fs-native-extensions') as typeof import('fs-native-extensions')
  return loaded
}

/** Takes the exclusive lock; false where another open file description holds it. */
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
