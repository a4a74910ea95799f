// The exports of `svc-sdk/node`.
export { type MountedGateway, type MountOptions, mountGateway, type NodeHandler } from './in-process/mount.js'
