// The default limits of the HTTP server. A policy names them without loading the server.
export const defaultLimits = {
  maxHeaders: 100,
  maxConnections: 10_000,
  maxConnectionsPerAddress: 1_000,
  maxRequestsPerConnection: 10_000,
  writeTimeoutMs: 30_000,
} as const
