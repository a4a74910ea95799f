// The exports of `@svc/control-plane`. Only a store that is opened loads the AWS SDK.
export { main } from './cli.js'
export {
  type ControlPlaneHandle,
  type ControlPlaneOptions,
  openStore,
  startControlPlane,
} from './control-plane.js'
export { addKey, type KeyAccess, type KeyOwner } from './key-file.js'
export type { LogStoreOptions as StoreOptions, Store } from './objects.js'
export { foldersOf } from './requests.js'
