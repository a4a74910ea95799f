// Whether the ports of a policy are free: they are bound for a moment, without accepting a connection.
import { createServer, type Server } from 'node:net'
import type { DoctorCheck } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { HostConfig } from '../policy/config.js'

const hint = 'stop what listens there, which may be this gateway itself, or choose another port or address'

export async function checkPorts({ port, server, admin }: HostConfig): Promise<DoctorCheck[]> {
  const addresses = [{ name: 'the gateway', host: server.host, port }]
  if (admin !== undefined) addresses.push({ name: 'the admin listener', host: admin.host, port: admin.port })
  const bound: Server[] = []
  const checks: DoctorCheck[] = []
  try {
    // All at once, so that two listeners with one address are found.
    for (const { name, host, port } of addresses) {
      const address = `${name}'s address ${host}, port ${port}`
      try {
        bound.push(await bind(host, port))
        checks.push({ severity: 'ok', message: `${address} is free` })
      } catch (fault) {
        checks.push({ severity: 'error', message: `${address} cannot be used: ${messageOf(fault)}`, hint })
      }
    }
  } finally {
    await Promise.all(bound.map((one) => new Promise((resolve) => one.close(resolve))))
  }
  return checks
}

function bind(host: string, port: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, exclusive: true }, () => resolve(server))
  })
}
