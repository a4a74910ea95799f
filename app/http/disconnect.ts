// Detects that the caller has disconnected. A response emits `close` only while it owns the connection: one that is
// queued behind another (HTTP/1.1 pipelining) does not.
import type { ServerResponse } from 'node:http'

export function isDisconnected(response: ServerResponse): boolean {
  return response.destroyed || response.req.socket.destroyed
}

/** Runs `listener` when the caller disconnects, not if it already has. Returns a function that removes the listener. */
export function onDisconnect(response: ServerResponse, listener: () => void): () => void {
  // Each of the calls that one request makes listens.
  response.setMaxListeners(0)
  // It is emitted once; `once` would wrap the listener.
  response.on('close', listener)
  if (response.socket !== null) return () => response.off('close', listener)
  const { socket } = response.req
  // One listener per queued request is no leak.
  socket.setMaxListeners(0)
  socket.on('close', listener)
  return () => {
    response.off('close', listener)
    socket.off('close', listener)
  }
}
