// The part of fs-native-extensions used here; the package ships no types.
declare module 'fs-native-extensions' {
  /** Takes an exclusive open-file-description lock; false when another description holds it. */
  export function tryLock(fd: number): boolean
  export function waitForLock(fd: number): Promise<void>
  export function unlock(fd: number): void
}
