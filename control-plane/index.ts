// Only the server loads the AWS SDK, when it starts.
export { main } from './cli.js'
export {
  type ControlPlaneHandle,
  type ControlPlaneOptions,
  startControlPlane,
} from './control-plane.js'
export { addKey, type KeyOwner } from './key-file.js'
