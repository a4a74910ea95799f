// The MCP state that gateways share, for tests without gateways.
import type { Clock, OpenKeyValueStore } from '@svc/core'
import { SharedState } from 'svc-sdk/internal/mcp/shared-state'
import { keepingLogger } from './logger.js'

/** The state of one gateway, or of all that open `store`. */
export function mcpState(clock: Clock, store?: OpenKeyValueStore): SharedState {
  return new SharedState(() => store, clock, keepingLogger())
}
