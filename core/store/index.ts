// What stores share, whatever keeps their data.

export { bindStore } from './bind.js'
export { makeDirectories } from './directories.js'
export type { Operations } from './guard.js'
export { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from './redis/settings.js'
export {
  type StoreEnvironment,
  type StoreKind,
  type StoreOptions,
  StoreResource,
  type StoreSettings,
} from './resource.js'
