// The exports of `svc-sdk/mcp`.
export {
  type GovernedServer,
  type GovernServerOptions,
  governServer,
  type InstrumentOptions,
  instrument,
} from './in-process/mcp/govern-server.js'
export type { McpServerLike, MessageExtra } from './in-process/mcp/transport.js'
