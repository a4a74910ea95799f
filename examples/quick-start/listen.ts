// Listens on a fixed port, or on a free one if that is in use, so that the first start does not fail.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on loopback, on a free port if `port` is in use, and returns the port. */
export async function listen(server: Server, port: number): Promise<number> {
  try {
    await listenOn(server, port)
  } catch (error) {
    if (port === 0 || !isTaken(error)) throw error
    await listenOn(server, 0)
  }
  return (server.address() as AddressInfo).port
}

/** Whether the port is in use on loopback. */
export async function isPortTaken(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    await listenOn(probe, port)
    return false
  } catch (error) {
    if (isTaken(error)) return true
    throw error
  } finally {
    probe.close()
  }
}

function listenOn(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
}
