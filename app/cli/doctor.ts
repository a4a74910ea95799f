// `svc doctor`: opens keys and stores and contacts servers; `svc policy check` only lists the tools of some servers.
import type { DoctorCheck } from '@svc/core'
import { visibleInLine } from '@svc/core/json'
import { formatDiagnostic } from '@svc/core/policy'
import { Command } from 'commander'
import { runDoctor, type SectionCheck } from '../doctor/doctor.js'
import type { ClientMachine } from '../init/clients/clients.js'
import { findConfigurations } from '../init/find.js'
import { pathForUser } from '../init/report.js'
import type { HostConfig } from '../policy/config.js'
import { commandContext } from '../policy-tools/explain/command-context.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { withManual } from './manual.js'
import { ownCommand } from './own-command.js'
import { baseDirOf, diagnosticsOf, loadPolicyFile } from './policy-file.js'

const FAILED = 1

export function doctorCommand(io: CliIo = processIo(), env: Environment = process.env): Command {
  const command = new Command('doctor')
    .argument('<file>', 'the policy file')
    .option('--json', 'print the checks as JSON')
    .action(async (file: string, { json }: { json?: true }) => {
      const checks = await checksOf(file, env)
      const ok = checks.every(({ severity }) => severity !== 'error')
      if (!ok) io.exit(FAILED)
      if (json === true) return io.out(`${JSON.stringify({ file, ok, checks }, null, 2)}\n`)
      await io.out(`${checks.map(lineOf).join('')}${summaryOf(checks)}\n`)
    })
  return withManual(command, { example: 'policy.yaml', verdicts: ['no error', 'an error was found'] })
}

/** A policy with mistakes is not opened. The checks read key files, so that a missing one hides no other mistake. */
async function checksOf(file: string, env: Environment): Promise<SectionCheck[]> {
  const result = await loadPolicyFile(file, env, false)
  const checks = diagnosticsOf(result).map((diagnostic): SectionCheck => {
    const severity = diagnostic.severity === 'warning' ? 'warning' : 'error'
    return { section: 'policy', severity, message: formatDiagnostic(diagnostic) }
  })
  if (!result.ok) return checks
  const warnings: string[] = []
  const warn = (message: string) => warnings.push(message)
  const context = commandContext(result.policy, { baseDir: baseDirOf(file), env, warn })
  const found = await runDoctor(result.policy, context)
  const warned = [...new Set(warnings)].map(
    (message): SectionCheck => ({ section: 'policy', severity: 'warning', message }),
  )
  const machine = { env, platform: process.platform, dir: baseDirOf(file) }
  const clients = clientChecks(machine, result.policy.host)
  return [...checks, ...warned, ...found, ...clients.map((check) => ({ section: 'clients', ...check }))]
}

function summaryOf(checks: readonly SectionCheck[]): string {
  const count = (severity: SectionCheck['severity']) => {
    const found = checks.filter((check) => check.severity === severity).length
    return `${found === 0 ? 'no' : found} ${severity}${found === 1 ? '' : 's'}`
  }
  return `${count('error')}, ${count('warning')}`
}

function lineOf({ section, severity, message, hint }: SectionCheck): string {
  const line = `${severity.padEnd(7)} ${section}: ${message}${hint === undefined ? '' : `; ${hint}`}`
  return `${visibleInLine(line)}\n`
}

/**
 * Finds MCP servers that clients of this machine start or call without a policy, by the configurations of the user and of
 * the policy's directory. The gateway governs an entry that has its URL.
 */
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
      {
        severity: 'warning',
        message,
        hint: `\`${ownCommand()} init\` puts servers of clients behind a policy`,
      },
    ]
  })
}
