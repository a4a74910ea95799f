// `svc-sdk/gateway`: start a gateway from code.
export { PolicyError } from '@svc/core/policy'
export type { HostConfig } from '../policy/config.js'
export type { GatewayOptions, GatewaySettings, MiddlewareConfig, PipelineOptions } from './options.js'
export { type GatewayHandle, type Listening, startGatewayServer } from './start.js'
