// `svc-sdk/gateway`: start a gateway from code.
export { PolicyError } from '@svc/core/policy'
export type { HostConfig } from '../policy/config.js'
export type { GatewayHandle, Listening } from './gateway-handle.js'
export type { GatewayOptions, GatewaySettings, MiddlewareConfig, PipelineOptions } from './options.js'
export { startGatewayServer } from './start.js'
