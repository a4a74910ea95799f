// Plans the changes of `svc init`: the servers of the policy, the files with their secrets, and the entries that would start
// through `svc stdio`. It reads and writes nothing.
import { dirname, join, posix } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { PresetCommand } from '../policy/presets/preset-policy.js'
import { readNpx } from '../stdio/targets/environment.js'
import { isPrivateArgument, isPrivateValue } from './clients/private-values.js'
import { type CommandEntry, hasClientVariable, type UrlEntry } from './entry.js'
import type { ClientConfiguration, ClientEntry } from './find.js'
import { packageOf, packagesDirectory } from './packages.js'

/** The command line that starts `svc stdio` from any directory. */
export interface StdioLauncher {
  readonly command: string
  readonly args: readonly string[]
}

export interface PlannedServer {
  readonly name: string
  /** SHA-256 of what the configuration has of it. */
  readonly definition: string
  /** Undefined if it is none of the policy: it is there from an earlier run, or its command stays in the entry. */
  readonly target?: string | PresetCommand
  /** The variables of a command that stays in the entry, in the form of a policy. */
  readonly env?: Readonly<Record<string, string>>
  /** The header of a URL, and the reference of its value. */
  readonly header?: { readonly name: string; readonly ref: string }
  /** Values that leave the configuration, by the path of their file below the directory of the policy. */
  readonly secrets: ReadonlyMap<string, string>
  /** The package with its program, as npm takes it; absent if the command is not one of an installed package. */
  readonly packageSpec?: string | undefined
}

/** The change of one entry. */
export interface PlannedEntry {
  readonly file: ClientConfiguration
  readonly found: ClientEntry
  readonly server: PlannedServer
  /** The members of the entry that change; undefined removes one. */
  readonly members: Readonly<Record<string, unknown>>
}

/** An entry that init can change, and its file. */
export interface Candidate {
  readonly file: ClientConfiguration
  readonly found: ClientEntry
  readonly entry: CommandEntry | UrlEntry
}

export interface PlanOptions {
  readonly launcher: StdioLauncher
  /** The absolute path of the policy. */
  readonly policy: string
  /** The directory of the gateway's files, relative to the policy. */
  readonly stateDir: string
  /** Names that the policy has already. */
  readonly taken: readonly string[]
  /** Definitions of an earlier run, by name. */
  readonly known: Readonly<Record<string, string>>
  /** The names of programs of installed packages, by what npm got; an entry that runs another package is planned as it is. */
  readonly programs: ReadonlyMap<string, string>
}

/** The entries that are a command or a URL, of files without a problem. */
export function candidatesOf(files: readonly ClientConfiguration[]): Candidate[] {
  return files.flatMap((file) =>
    file.problem !== undefined
      ? []
      : file.entries.flatMap((found) => {
          const { entry } = found
          return entry.kind === 'command' || entry.kind === 'url' ? [{ file, found, entry }] : []
        }),
  )
}

/** Entries with the same definition are one server; others with its name get a number. */
export function planEntries(candidates: readonly Candidate[], options: PlanOptions): PlannedEntry[] {
  const servers = new Map<string, PlannedServer>(
    Object.entries(options.known).map(([name, definition]) => [
      definition,
      { name, definition, secrets: new Map() },
    ]),
  )
  // File systems without case have one directory for names that differ in it.
  const taken = new Set(options.taken.map((name) => name.toLowerCase()))
  return candidates.map(({ file, found, entry }) => {
    const definition = sha256Hex(canonicalize(withoutClientValues(entry)))
    let server = servers.get(definition)
    if (server === undefined) {
      const name = freeName(found.name, taken)
      const installed = installedCommand(entry, name, options)
      const packageSpec = installed === undefined ? undefined : packageOf(entry)
      server = { definition, packageSpec, ...planServer(name, installed ?? entry, options.stateDir) }
      servers.set(definition, server)
    }
    return { file, found, server, members: membersOf(found, entry, server, options) }
  })
}

/** The entry with the program of its installed package, by its path from the policy; undefined if there is none. */
function installedCommand(
  entry: CommandEntry | UrlEntry,
  name: string,
  { programs }: PlanOptions,
): CommandEntry | undefined {
  const npx = entry.kind === 'command' ? readNpx(entry.command, entry.args) : undefined
  const program = npx && programs.get(npx.spec)
  if (entry.kind === 'url' || npx === undefined || program === undefined) return undefined
  return {
    ...entry,
    command: posix.join(packagesDirectory, name, 'node_modules/.bin', program),
    args: npx.args,
  }
}

/** Each client chooses the values of its variables, so servers that differ only in them count as one. */
function withoutClientValues(entry: CommandEntry | UrlEntry): CommandEntry | UrlEntry {
  if (entry.kind === 'url') {
    const { header } = entry
    const isOfClient = header !== undefined && hasClientVariable(header.value)
    return isOfClient ? { ...entry, header: { ...header, value: '' } } : entry
  }
  const env = Object.entries(entry.env).map(([name, value]) => [
    name,
    hasClientVariable(value) ? null : value,
  ])
  return { ...entry, env: Object.fromEntries(env) }
}

/** A name that is one segment of a path, a pattern and a directory. */
function freeName(name: string, taken: Set<string>): string {
  const base =
    name
      .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
      .replaceAll(/^[.-]+|[.-]+$/g, '')
      .slice(0, 60) || 'server'
  let free = base
  for (let number = 2; taken.has(free.toLowerCase()); number++) free = `${base}-${number}`
  taken.add(free.toLowerCase())
  return free
}

function planServer(
  name: string,
  entry: CommandEntry | UrlEntry,
  stateDir: string,
): Omit<PlannedServer, 'definition'> {
  const secrets = new Map<string, string>()
  const keep = (file: string, value: string): string => {
    const path = `${stateDir}/secrets/${name}/${file}`
    secrets.set(path, value)
    return `file://${path}`
  }
  if (entry.kind === 'url') {
    const { url, header } = entry
    if (header === undefined) return { name, target: url, secrets }
    const ref = hasClientVariable(header.value)
      ? `env:${headerVariable(header.name)}`
      : keep(header.name.toLowerCase(), header.value)
    return { name, target: url, header: { name: header.name, ref }, secrets }
  }
  const env = Object.entries(entry.env).map(([variable, value]): [string, string] => {
    if (hasClientVariable(value)) return [variable, `env:${variable}`]
    return [variable, isPrivateValue(variable, value) ? keep(variable, value) : value]
  })
  if (entry.isOfClient) return { name, env: Object.fromEntries(env), secrets }
  const args = entry.args.map((arg, index) =>
    isPrivateArgument(arg, entry.args[index - 1]) ? `\${${keep(`argument-${index + 1}`, arg)}}` : arg,
  )
  return { name, target: { command: entry.command, args, env: Object.fromEntries(env) }, secrets }
}

/** The variable in which a client passes a header with variables of its own. */
function headerVariable(header: string): string {
  return `SVC_HEADER_${header.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
}

function membersOf(
  { members }: ClientEntry,
  entry: CommandEntry | UrlEntry,
  { name, env: planned = {} }: PlannedServer,
  options: PlanOptions,
): Record<string, unknown> {
  const { launcher, policy } = options
  const { command, args } = launcher
  if (entry.kind === 'command' && entry.isOfClient) {
    const isFile = (variable: string) => planned[variable]?.startsWith('file:') === true
    const variables = Object.keys(entry.env).flatMap((variable) => [
      '--env',
      isFile(variable) ? `${variable}=${planned[variable]}` : variable,
    ])
    const own = ['stdio', '--policy', policy, '--name', name, ...variables]
    const kept = Object.entries(entry.env).filter(([variable]) => !isFile(variable))
    const env = kept.length === 0 ? undefined : Object.fromEntries(kept)
    const installed = installedCommand(entry, name, options)
    const started = installed && { ...installed, command: join(dirname(policy), installed.command) }
    const { command: program, args: given } = started ?? entry
    return {
      command,
      args: [...args, ...own, '--', program, ...given],
      ...(members.includes('env') ? { env } : {}),
    }
  }
  const set: Record<string, unknown> = {
    command,
    args: [...args, 'stdio', '--policy', policy, '--name', name, '--cwd', '.'],
  }
  const env = clientVariables(entry)
  if (Object.keys(env).length > 0) set['env'] = env
  if (entry.kind === 'url' && members.includes('type')) set['type'] = 'stdio'
  const removed = ['env', 'url', 'serverUrl', 'headers'].filter(
    (one) => members.includes(one) && !(one in set),
  )
  return { ...set, ...Object.fromEntries(removed.map((one) => [one, undefined])) }
}

/** Variables that the client goes on to give, because it puts their values in. */
function clientVariables(entry: CommandEntry | UrlEntry): Record<string, string> {
  const { header } = entry.kind === 'url' ? entry : { header: undefined }
  const all = entry.kind === 'command' ? entry.env : header && { [headerVariable(header.name)]: header.value }
  return Object.fromEntries(Object.entries(all ?? {}).filter(([, value]) => hasClientVariable(value)))
}
