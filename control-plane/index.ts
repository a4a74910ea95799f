// Only the server loads the AWS SDK, when it starts.
export { main } from './cli.js'
export {
  type ControlPlaneHandle,
  type ControlPlaneOptions,
  startControlPlane,
} from './control-plane.js'
export { addKey, type KeyAccess, type KeyOwner } from './key-file.js'
export { openStore } from './open-store.js'
export type { Store, StoreOptions } from './store.js'
export { foldersOf } from './upload-request.js'
