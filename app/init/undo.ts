// Puts back what `svc init` changed. A configuration that is as init left it gets its former bytes. In one that was edited
// since, only the members that init changed go back, if they still are what init wrote.
import { existsSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isJsonObject } from '@svc/core/json'
import { isBelow } from '@svc/core/secret'
import { applyMembers, fileNames, removeEmptyDirectories } from './apply.js'
import { type ClientMachine, configurationPlaces } from './clients/clients.js'
import {
  ConfigurationError,
  type ConfigurationNode,
  decodeConfiguration,
  editMembers,
  encodeConfiguration,
  nodeAt,
  parseConfiguration,
} from './configuration-text.js'
import { readEntry } from './entry.js'
import { fileDigest, readIfPresent, removeIfEmpty, replaceContent } from './files.js'
import { realPathOf } from './find.js'
import { type FileChange, InitError, type Journal, type JournalFile } from './journal.js'
import { packageFiles, packagesDirectory } from './packages.js'

export interface Undo {
  /** The new content of configurations, by their real path. */
  readonly contents: ReadonlyMap<string, Buffer>
  /** Files that init wrote and that are as it left them, from the directory of the policy. */
  readonly removed: readonly string[]
  /** Directories of packages whose lock file is as init left it. */
  readonly packages: readonly string[]
  /** The changes that stay, and why. */
  readonly kept: readonly string[]
  /** Changes that cannot be told apart; if there are any, nothing is changed. */
  readonly conflicts: readonly string[]
}

/** Throws `InitError` for a journal that names other files than the configurations of clients. */
export function planUndo(journal: Journal, journalFile: JournalFile, machine: ClientMachine): Undo {
  const contents = new Map<string, Buffer>()
  const kept: string[] = []
  const conflicts: string[] = []
  const known = new Set(configurationPlaces(machine).map(({ file }) => realPathOf(file) ?? file))
  for (const change of journal.changes.toReversed()) {
    const { client, file } = change
    if (!known.has(file))
      throw new InitError(`the journal names ${file}, which is not a configuration of a client`)
    const current = contents.get(file) ?? readIfPresent(file)
    if (current === undefined) {
      kept.push(`${client}: ${file} is gone`)
      continue
    }
    try {
      contents.set(
        file,
        restored(current, change, journalFile.copied(change), join(machine.dir, fileNames.policy)),
      )
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      conflicts.push(`${client}: ${file}: ${error.message}`)
    }
  }
  const hasLog = existsSync(join(machine.dir, fileNames.log))
  const needed: readonly string[] = hasLog ? [fileNames.key, fileNames.ignore] : []
  if (hasLog) kept.push(`${fileNames.state}: the log of the calls, and its key`)
  const removed: string[] = []
  for (const [name, digest] of Object.entries(journal.written)) {
    checkBelow(machine.dir, name)
    const bytes = readIfPresent(join(machine.dir, name))
    if (bytes === undefined || needed.includes(name)) continue
    if (fileDigest(bytes) === digest) removed.push(name)
    else kept.push(`${name}: changed since init wrote it`)
  }
  const packages = journal.packages
    .map((server) => `${packagesDirectory}/${server}`)
    .filter((path) =>
      packageFiles.every(
        (file) => removed.includes(`${path}/${file}`) || !existsSync(join(machine.dir, path, file)),
      ),
    )
  for (const path of packages) checkBelow(machine.dir, `${path}/node_modules`)
  return { contents, removed, packages, kept, conflicts }
}

/** Throws `ConfigurationError` with the difference if the entries are not what init wrote. */
function restored(current: Buffer, change: FileChange, before: Buffer, policy: string): Buffer {
  if (fileDigest(current) === change.after) return before
  if (current.equals(before)) return before
  const formerText = decodeConfiguration(before)
  const former = parseConfiguration(formerText, change.hasComments)
  let text = decodeConfiguration(current)
  for (const entry of change.entries) {
    const root = parseConfiguration(text, change.hasComments)
    const node = nodeAt(root, entry.path)
    const was = nodeAt(former, entry.path)
    if (was === undefined || !isJsonObject(was.value))
      throw new ConfigurationError('the copy has no such entry')
    if (node === undefined) {
      checkNotRenamed(root, entry, policy)
      continue
    }
    if (isDeepStrictEqual(node.value, was.value)) continue
    checkUnchanged(node, entry)
    const whole = structuredClone(was.value)
    applyMembers(whole, membersOf(entry))
    text = isDeepStrictEqual(node.value, whole)
      ? text.slice(0, node.start) + formerText.slice(was.start, was.end) + text.slice(node.end)
      : editMembers(text, entry.path, formerMembers(was.value, entry))
  }
  return encodeConfiguration(text, current)
}

type EntryChange = FileChange['entries'][number]

function membersOf({ set, removed }: EntryChange): Record<string, unknown> {
  return { ...set, ...Object.fromEntries(removed.map((name) => [name, undefined])) }
}

function formerMembers(was: Readonly<Record<string, unknown>>, entry: EntryChange): Record<string, unknown> {
  return Object.fromEntries(Object.keys(membersOf(entry)).map((name) => [name, was[name]]))
}

/** Throws `InitError` for a path that init cannot have written: one outside of the directory, also by a symbolic link. */
function checkBelow(dir: string, name: string): void {
  const path = resolve(dir, name)
  const [root, parent] = [realPathOf(dir) ?? dir, realPathOf(dirname(path))]
  if (path !== dir && isBelow(path, [dir]) && (parent === undefined || isBelow(parent, [root]))) return
  throw new InitError(`the journal names ${name}, which is not below ${dir}`)
}

/** An entry with another name that starts the server of this one may be this one. */
function checkNotRenamed(root: ConfigurationNode, { path, set }: EntryChange, policy: string): void {
  const others = nodeAt(root, path.slice(0, -1))?.members ?? new Map<string, ConfigurationNode>()
  for (const [name, { value }] of others) {
    const entry = readEntry(value, { platform: process.platform, directory: undefined })
    if (entry.kind !== 'governed' || entry.policy !== policy) continue
    if (isJsonObject(value) && isDeepStrictEqual(value['args'], set['args'])) {
      throw new ConfigurationError(
        `the entry ${JSON.stringify(path.at(-1))} is now ${JSON.stringify(name)}; name it as before, or remove it`,
      )
    }
  }
}

function checkUnchanged({ value }: ConfigurationNode, entry: EntryChange): void {
  const now = isJsonObject(value) ? value : {}
  const differences = Object.entries(membersOf(entry)).filter(
    ([name, wrote]) => !isDeepStrictEqual(now[name], wrote),
  )
  if (differences.length === 0) return
  const lines = differences.map(([name, wrote]) => {
    const has = now[name] === undefined ? 'is gone' : 'is another'
    return wrote === undefined
      ? `  + ${name} is new`
      : `  - ${name}: ${JSON.stringify(wrote)}\n  + ${name} ${has}`
  })
  throw new ConfigurationError(
    `the entry ${JSON.stringify(entry.path.at(-1))} was edited since init wrote it:\n${lines.join('\n')}`,
  )
}

/** Throws the error of the file system; what was changed until then stays, and can be undone again. */
export function applyUndo(
  { contents, removed, packages }: Undo,
  journalFile: JournalFile,
  dir: string,
): void {
  for (const [file, bytes] of contents) {
    if (readIfPresent(file)?.equals(bytes) === false) replaceContent(file, bytes)
  }
  for (const path of packages) rmSync(join(dir, path, 'node_modules'), { recursive: true, force: true })
  for (const name of removed) rmSync(join(dir, name))
  for (const path of packages) removeIfEmpty(join(dir, path))
  rmSync(journalFile.directory, { recursive: true })
  removeEmptyDirectories(dir)
}
