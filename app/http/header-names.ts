// Headers of MCP that several modules read and write.
export const SESSION_ID_HEADER = 'mcp-session-id'
export const PROTOCOL_VERSION_HEADER = 'mcp-protocol-version'
export const LAST_EVENT_ID_HEADER = 'last-event-id'
