// Listens on an address. The errors say what to do.
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net'

const remedies = new Map([
  ['EADDRINUSE', 'the port is taken: end what listens there, or choose another port (0 picks a free one)'],
  ['EACCES', 'this user may not listen there: choose a port from 1024 on'],
  ['EADDRNOTAVAIL', 'this machine does not have that address: choose one of its own, or 0.0.0.0 for all'],
])

/** The error with the remedy in its message and the same `code`; an unknown error is returned as it is. */
function listenError(error: NodeJS.ErrnoException, at: { host: string; port: number }): Error {
  const remedy = remedies.get(error.code ?? '')
  if (remedy === undefined) return error
  const address = `${at.host.includes(':') ? `[${at.host}]` : at.host}:${at.port}`
  const explained = new Error(`cannot listen on ${address}, ${remedy}`, { cause: error })
  return Object.assign(explained, { code: error.code })
}

/**
 * Resolves with the port, which other processes may have too with `reusePort`. Rejects if the address is in use or not of
 * this machine, with the `code` of the system's error.
 */
export function listenOn(
  server: Server,
  at: { readonly host: string; readonly port: number; readonly reusePort?: boolean },
): Promise<number> {
  return new Promise((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException): void => reject(listenError(error, at))
    server.once('error', refuse)
    const { host, port, reusePort = false } = at
    // The option is newer than the oldest Node that the types are of.
    server.listen({ host, port, reusePort } as ListenOptions, () => {
      server.off('error', refuse)
      resolve((server.address() as AddressInfo).port)
    })
  })
}

/**
 * Listens for `server` on the address of `localhost` that it has not got: a client may use either family. Undefined if the
 * machine has one family alone. Rejects if another program listens there, which a client could take for the server.
 */
export async function listenOnOtherFamily(
  server: Server,
  { port, reusePort }: { readonly port: number; readonly reusePort: boolean },
): Promise<Server | undefined> {
  const { family } = server.address() as AddressInfo
  const other = createServer((socket) => server.emit('connection', socket))
  other.maxConnections = server.maxConnections
  try {
    await listenOn(other, { host: family === 'IPv6' ? '127.0.0.1' : '::1', port, reusePort })
    return other
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return undefined
    throw error
  }
}

export function listenerUrl(host: string, port: number, isSecure: boolean): string {
  return `${isSecure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`
}
