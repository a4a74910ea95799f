// The lock of a supervisor on an address and a port: the sockets of its workers allow others to listen beside them, so that
// another gateway of the same user would get a part of the connections.
import { createServer, type Server } from 'node:net'
import { PolicyError } from '@svc/core/policy'
import { listenOn } from '../http/listen.js'

interface Place {
  readonly host: string
  readonly port: number
}

export interface PortLock extends AsyncDisposable {
  /** The port, chosen if it was 0. */
  readonly port: number
}

/** Whether several processes can listen on one port here. */
export function canSharePorts(version = process.versions.node, platform: string = process.platform): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  // Node 22.12 and 23.1 have the option `reusePort`.
  const isNewEnough = major > 22 ? major > 23 || minor >= 1 : major === 22 && minor >= 12
  return isNewEnough && platform === 'linux'
}

/** Throws `PolicyError`, which says what to do instead, if they cannot. */
export function requireSharedPorts(
  version = process.versions.node,
  platform: string = process.platform,
): void {
  if (canSharePorts(version, platform)) return
  const here = `this is Node ${version} on ${platform}`
  const message =
    `several processes listen on one port from Node 22.12 on under Linux, and ${here}; start one gateway for each core ` +
    'instead (svc-gateway@.service of systemd, each with a port of its own) behind a load balancer'
  throw new PolicyError([{ severity: 'mistake', file: '--workers', path: '', message }])
}

/** Rejects as `listenOn` does if a process listens there, and if another supervisor holds the lock. */
export async function lockPort(place: Place): Promise<PortLock> {
  // Without `reusePort`, so that the system refuses the port if anybody listens on it.
  const probe = createServer()
  const port = await listenOn(probe, place)
  const address = probe.address()
  const host = typeof address === 'object' && address !== null ? address.address : place.host
  try {
    return await hold({ host, port })
  } finally {
    await closed(probe)
  }
}

/**
 * A socket in the abstract namespace of Linux (unix(7)): it belongs to the network namespace, as the port does, and ends
 * with its process, so that no file is left behind.
 */
async function hold({ host, port }: Place): Promise<PortLock> {
  const lock = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    lock.once('error', (cause: NodeJS.ErrnoException) => {
      const explained = new Error(
        `another svc gateway --workers has ${host} port ${port}: end it, or choose another port`,
        { cause },
      )
      reject(cause.code === 'EADDRINUSE' ? Object.assign(explained, { code: cause.code }) : cause)
    })
    lock.listen(`\0svc-gateway/${host}/${port}`, resolve)
  })
  return { port, [Symbol.asyncDispose]: () => closed(lock) }
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}
