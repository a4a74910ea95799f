export { type LockedServers, LockFileError, lockFileText, readLockFile } from './definitions/lock-file.js'
export { protectionsPlugin } from './plugin.js'
