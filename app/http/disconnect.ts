// Whether the caller is still there. A response says so by itself only while it has the connection: one that is
// queued behind another (HTTP/1.1 pipelining) never hears that the connection has closed.
import type { ServerResponse } from 'node:http'

export function isDisconnected(response: ServerResponse): boolean {
  return response.destroyed || response.req.socket.destroyed
}

/** Runs `leave` when the caller goes; returns what takes that back. Not for one who has gone already. */
export function onDisconnect(response: ServerResponse, leave: () => void): () => void {
  response.once('close', leave)
  if (response.socket !== null) return () => response.off('close', leave)
  const { socket } = response.req
  // As many as a caller queues, which is no leak.
  socket.setMaxListeners(0)
  socket.once('close', leave)
  return () => {
    response.off('close', leave)
    socket.off('close', leave)
  }
}
