export { type LockedServers, LockFileError, lockFileText, readLockFile } from './definitions/lock-file.js'
export { type DefinitionReviews, definitionReviews, type ServerReview } from './definitions/reviews.js'
export { protectionsPlugin } from './plugin.js'
