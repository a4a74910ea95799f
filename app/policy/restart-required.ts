// The settings that a reload cannot change: those of the listening ports, and limits that count calls in flight.
import { isDeepStrictEqual } from 'node:util'
import type { HostConfig } from './config.js'

/** Settings that a reload changes. */
const reloadable: ReadonlySet<string> = new Set([
  'publicUrl',
  'trustedProxies',
  'allowedHosts',
  'allowedOrigins',
])

/** The names of settings that differ and take effect at the next start. */
export function settingsRequiringRestart(running: HostConfig, next: HostConfig): string[] {
  const before: Record<string, unknown> = running.server
  const after: Record<string, unknown> = next.server
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !reloadable.has(name) && !isDeepStrictEqual(before[name], after[name]),
  )
  return [
    ...(running.port === next.port ? [] : ['port']),
    ...names.map((name) => `server.${name}`),
    ...changedAdminSettings(running.admin, next.admin),
  ]
}

/** A reload changes the token and the reviewers, not whether and where the listener listens. */
function changedAdminSettings(running: HostConfig['admin'], next: HostConfig['admin']): string[] {
  if (running === undefined || next === undefined) return running === next ? [] : ['admin']
  const settings = ['port', 'host', 'tls'] as const
  return settings.filter((key) => !isDeepStrictEqual(running[key], next[key])).map((key) => `admin.${key}`)
}
