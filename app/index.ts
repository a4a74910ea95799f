// The exports of `svc-sdk`.
export { createPipeline, type EmbeddedPipeline, type ToolCall } from './embed.js'
export {
  type GatewayHandle,
  type GatewayOptions,
  type HostConfig,
  type Listening,
  type MiddlewareConfig,
  PolicyError,
  startGatewayServer,
} from './gateway/index.js'
