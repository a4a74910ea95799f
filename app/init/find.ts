// Finds the MCP servers in the configuration files of clients. It reads files and starts nothing.
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { messageOf } from '@svc/core/json'
import { type ClientMachine, type ConfigurationPlace, configurationPlaces } from './clients/clients.js'
import {
  ConfigurationError,
  type ConfigurationNode,
  decodeConfiguration,
  nodeAt,
  parseConfiguration,
} from './configuration-text.js'
import { readEntry, type ServerEntry } from './entry.js'

export interface ClientEntry {
  readonly name: string
  /** The members that lead to it. */
  readonly path: readonly string[]
  /** The names of its members. */
  readonly members: readonly string[]
  readonly entry: ServerEntry
}

export interface ClientConfiguration extends ConfigurationPlace {
  /** The file that symbolic links end at. */
  readonly realPath: string
  readonly bytes: Buffer
  readonly entries: readonly ClientEntry[]
  /** Why the file is left alone. */
  readonly problem?: string
}

/** The files that exist, each once. */
export function findConfigurations(machine: ClientMachine): ClientConfiguration[] {
  const found = new Map<string, ClientConfiguration>()
  for (const place of configurationPlaces(machine)) {
    const realPath = realPathOf(place.file)
    if (realPath !== undefined && !found.has(realPath))
      found.set(realPath, readFile(place, realPath, machine))
  }
  return [...found.values()]
}

/** The path after symbolic links; undefined if the file does not exist. */
export function realPathOf(file: string): string | undefined {
  try {
    return realpathSync.native(file)
  } catch (error) {
    if (error instanceof Error && 'code' in error && /^(?:ENOENT|ENOTDIR)$/.test(String(error.code)))
      return undefined
    // The path itself is read next, and the error becomes the file's.
    return file
  }
}

function readFile(
  place: ConfigurationPlace,
  realPath: string,
  { platform, dir }: ClientMachine,
): ClientConfiguration {
  const file = { ...place, realPath, bytes: Buffer.alloc(0), entries: [] }
  try {
    if (!statSync(realPath).isFile()) return { ...file, problem: 'not a regular file' }
    const bytes = readFileSync(realPath)
    const root = parseConfiguration(decodeConfiguration(bytes), place.hasComments)
    const base = place.isOfDirectory ? dir : undefined
    const entries = place.servers.flatMap((path) => entriesAt(root, path, { platform, directory: base }))
    return { ...file, bytes, entries, ...problemOf(realPath, entries) }
  } catch (error) {
    if (error instanceof ConfigurationError) return { ...file, problem: error.message }
    return { ...file, problem: `cannot be read: ${messageOf(error)}` }
  }
}

/** A file that nobody may write says that it is not to be changed; its directory would let it be replaced. */
function problemOf(realPath: string, entries: readonly ClientEntry[]): Pick<ClientConfiguration, 'problem'> {
  const isWritten = (statSync(realPath).mode & 0o222) !== 0
  const needsChange = entries.some(({ entry: { kind } }) => kind === 'command' || kind === 'url')
  return isWritten || !needsChange ? {} : { problem: 'read-only' }
}

function entriesAt(
  root: ConfigurationNode,
  path: readonly string[],
  place: { readonly platform: NodeJS.Platform; readonly directory: string | undefined },
): ClientEntry[] {
  const star = path.indexOf('*')
  if (star >= 0) {
    const [before, after] = [path.slice(0, star), path.slice(star + 1)]
    return [...(nodeAt(root, before)?.members.keys() ?? [])].flatMap((name) =>
      // Each is named by the directory in which the client starts its servers.
      entriesAt(root, [...before, name, ...after], { ...place, directory: name }),
    )
  }
  return [...(nodeAt(root, path)?.members ?? [])].map(([name, { value, members }]) => ({
    name,
    members: [...members.keys()],
    path: [...path, name],
    entry: readEntry(value, place),
  }))
}
