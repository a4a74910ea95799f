// Finds MCP servers that clients of this machine start or call without a policy, for `svc doctor`.
import type { DoctorCheck } from '@svc/core'
import type { ClientMachine } from '../clients/clients.js'
import type { HostConfig } from '../policy/config.js'
import { findConfigurations } from './find.js'
import { pathForUser } from './report.js'

/** Checks the configurations of the user and of the policy's directory. The gateway governs an entry that has its URL. */
export function clientChecks(
  machine: ClientMachine,
  { port, server: { publicUrl } }: Pick<HostConfig, 'port' | 'server'>,
): DoctorCheck[] {
  const own = new Set([
    `http://127.0.0.1:${port}`,
    `http://localhost:${port}`,
    publicUrl && new URL(publicUrl).origin,
  ])
  return findConfigurations(machine).flatMap(({ client, file, entries, problem }): DoctorCheck[] => {
    const place = `${client}, ${pathForUser(file, machine)}`
    if (problem !== undefined && entries.length === 0) {
      return [{ severity: 'warning', message: `${place}: ${problem}, so its servers are not known` }]
    }
    const names = entries.flatMap(({ name, entry }) => {
      if (entry.kind === 'governed') return []
      const isOwn = entry.kind === 'url' && own.has(new URL(entry.url).origin)
      return isOwn ? [] : [name]
    })
    if (names.length === 0) return []
    const message = `${place}: goes round the gateway: ${names.join(', ')}`
    return [
      { severity: 'warning', message, hint: '`npx svc-sdk init` puts servers of clients behind a policy' },
    ]
  })
}
