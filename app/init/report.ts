// The output of `svc init`: what it found, what it would do, and what it did. It shows no values of a configuration except
// names, and commands and arguments that are not secrets.
import { homedir } from 'node:os'
import { isAbsolute, relative, sep } from 'node:path'
import type { Preset } from '../policy/presets/preset-policy.js'
import { fileNames } from './apply.js'
import type { ClientMachine } from './clients/clients.js'
import { isPrivateArgument } from './clients/private-values.js'
import type { ClientConfiguration } from './find.js'
import { packageOf, packagesDirectory } from './packages.js'
import type { Candidate, PlannedEntry } from './plan.js'

/** A path as a user writes it. */
export function pathForUser(path: string, { env, dir }: Pick<ClientMachine, 'env' | 'dir'>): string {
  const below = (base: string) => {
    const rest = relative(base, path)
    return rest === '' || rest.startsWith('..') || isAbsolute(rest) ? undefined : rest
  }
  const inDirectory = below(dir)
  if (inDirectory !== undefined) return inDirectory
  const inHome = below(env['HOME'] ?? homedir())
  return inHome === undefined ? path : `~${sep}${inHome}`
}

/** A command line without its secrets. */
function shownCommand({ entry }: Candidate): string {
  if (entry.kind === 'url') return entry.url
  const args = entry.args.map((arg, index) => (isPrivateArgument(arg, entry.args[index - 1]) ? '***' : arg))
  return [entry.command, ...args].join(' ')
}

export interface FoundServers {
  readonly files: readonly ClientConfiguration[]
  /** The changes that would be made. */
  readonly entries: readonly PlannedEntry[]
  /** Entries that need a yes of their own. */
  readonly others: readonly Candidate[]
  /** Whether the user is asked for it. */
  readonly isAsked: boolean
}

export function findingLines(found: FoundServers, machine: ClientMachine): string[] {
  const { files, entries } = found
  const shown = files.filter((file) => file.problem !== undefined || file.entries.length > 0)
  const all = shown.flatMap((file) => (file.problem === undefined ? file.entries : []))
  const servers = new Set(entries.map(({ server }) => server.name))
  const rows = shown.map((file) => [
    file.client,
    pathForUser(file.file, machine),
    file.problem === undefined ? summaryOf(file, entries) : `${file.problem}; left alone`,
  ])
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] ?? '').length), 0))
  const lines = shown.flatMap((file, index) => {
    const [client = '', path = '', summary = ''] = rows[index] ?? []
    const row = `  ${client.padEnd(widths[0] ?? 0)}  ${path.padEnd(widths[1] ?? 0)}  ${summary}`
    return [row.trimEnd(), ...detailsOf(file, found, machine)]
  })
  return [
    `Found ${count(all.length, 'entry', 'entries')}, ${count(servers.size, 'server')}; none was started`,
    ...lines,
  ]
}

function summaryOf(file: ClientConfiguration, entries: readonly PlannedEntry[]): string {
  return file.entries
    .flatMap((found) => {
      if (found.entry.kind === 'governed') return [`${found.name} (governed already)`]
      const planned = entries.find((entry) => entry.found === found)
      if (planned === undefined) return []
      const { name, secrets } = planned.server
      const notes = [
        ...(name === found.name ? [] : [`as ${name}`]),
        ...(found.entry.kind === 'command' && found.entry.isOfClient
          ? ['its command stays in the entry']
          : []),
        ...(secrets.size === 0 ? [] : [`${count(secrets.size, 'secret')} -> ${fileNames.state}/secrets`]),
      ]
      return [notes.length === 0 ? found.name : `${found.name} (${notes.join(', ')})`]
    })
    .join(', ')
}

/** Lines for the entries that stay as they are, or need a yes of their own. */
function detailsOf(
  { problem, file, entries }: ClientConfiguration,
  { others, isAsked }: FoundServers,
  machine: ClientMachine,
): string[] {
  return (problem === undefined ? entries : []).flatMap((found) => {
    if (found.entry.kind === 'unsupported') return [`    ${found.name}: left alone: ${found.entry.reason}`]
    const other = others.find((one) => one.found === found)
    if (other === undefined) return []
    const option = isAsked ? '' : `; left alone without --yes-to ${pathForUser(file, machine)}`
    return [
      `    ${found.name}: of this directory, so it may be another's${option}`,
      `      ${shownCommand(other)}`,
    ]
  })
}

export function planLines(entries: readonly PlannedEntry[], preset: Preset, isFirst: boolean): string[] {
  const { policy, test, state } = fileNames
  const added = [
    ...new Set(entries.flatMap(({ server }) => (server.target === undefined ? [] : [server.name]))),
  ]
  const written = isFirst
    ? `${policy} (preset ${preset}), ${test}, ${state}/ (keys, 0600)`
    : added.length === 0
      ? undefined
      : `${policy} (+ ${added.join(', ')})`
  const effect =
    preset === 'observe'
      ? 'Nothing is denied yet: observe records what guard would refuse.'
      : 'guard refuses risky tools, private addresses and files outside the known directories.'
  const packages = [...new Set(entries.flatMap(({ found }) => packageOf(found.entry) ?? []))]
  return [
    ...(written === undefined ? [] : [`Would write     ${written}`]),
    ...(packages.length === 0
      ? []
      : [
          `Would install   ${packages.join(', ')} from npm's registry to ${packagesDirectory}/, without scripts`,
        ]),
    `Would change    ${clientsOf(entries)}; copies in ${state}/undo (0600)`,
    ...(isFirst ? [effect] : []),
  ]
}

export function clientsOf(entries: readonly PlannedEntry[]): string {
  const clients = [...new Set(entries.map(({ file }) => file.client))].join(', ')
  const verb = entries.length === 1 ? 'starts' : 'start'
  return `${clients}: ${count(entries.length, 'entry', 'entries')} ${verb} through \`svc stdio\``
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`
}
