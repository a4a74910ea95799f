// The settings that a reload cannot change: what the port is bound with, and the caps that calls in flight are
// counted against. A reload that asks for others says so.
import { isDeepStrictEqual } from 'node:util'
import type { HostConfig } from './config.js'

/** These follow a reload. */
const reloaded: ReadonlySet<string> = new Set([
  'publicUrl',
  'trustedProxies',
  'allowedHosts',
  'allowedOrigins',
])

/** The names of the settings that differ and take effect at the next start. */
export function settingsRequiringRestart(running: HostConfig, next: HostConfig): string[] {
  const before: Record<string, unknown> = running.server
  const after: Record<string, unknown> = next.server
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !reloaded.has(name) && !isDeepStrictEqual(before[name], after[name]),
  )
  return [
    ...(running.port === next.port ? [] : ['port']),
    ...names.map((name) => `server.${name}`),
    ...changedOfAdmin(running.admin, next.admin),
  ]
}

/** What its listener tells, and whom, follows a reload; whether and where it is does not. */
function changedOfAdmin(running: HostConfig['admin'], next: HostConfig['admin']): string[] {
  if (running === undefined || next === undefined) return running === next ? [] : ['admin']
  const settings = ['port', 'host', 'tls'] as const
  return settings.filter((key) => !isDeepStrictEqual(running[key], next[key])).map((key) => `admin.${key}`)
}
