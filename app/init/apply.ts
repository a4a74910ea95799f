// Carries out a plan: writes the policy and its files, then changes the configurations. All or nothing: what was written
// is taken back if a later step fails.
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isJsonObject } from '@svc/core/json'
import { generateKeyFile } from '@svc/plugin-audit/log'
import type { Preset } from '../policy/presets/preset-policy.js'
import {
  ConfigurationError,
  decodeConfiguration,
  editMembers,
  encodeConfiguration,
  parseConfiguration,
} from './configuration-text.js'
import { createFile, fileDigest, readIfPresent, removeIfEmpty, replaceContent } from './files.js'
import type { ClientConfiguration } from './find.js'
import { checkPrivate, type FileChange, InitError, type Journal, type JournalFile } from './journal.js'
import { type InstalledPackage, packageFiles, packagesDirectory } from './packages.js'
import type { PlannedEntry, PlannedServer } from './plan.js'
import { extendedPolicy, firstTest, type NewPolicyPlace, newPolicy } from './policy-files.js'

/** Names in the directory of the policy. */
export const fileNames = {
  policy: 'svc.yaml',
  test: 'svc.test.yaml',
  state: '.svc',
  ignore: '.svc/.gitignore',
  log: '.svc/audit',
  key: '.svc/signing.key',
  schema: '.svc/policy.schema.json',
  ignoreModules: `${packagesDirectory}/.gitignore`,
} as const

const ignoreAll = '*\n'

export interface Application {
  /** The directory of the policy. */
  readonly dir: string
  readonly journalFile: JournalFile
  /** The journal of an earlier run. */
  readonly journal: Journal | undefined
  readonly entries: readonly PlannedEntry[]
  /** By what npm got. */
  readonly packages: ReadonlyMap<string, InstalledPackage>
  readonly preset: Preset
  readonly place: Omit<NewPolicyPlace, 'schemaPath' | 'stateDir' | 'keyPath'>
  /** The JSON Schema of a policy. */
  readonly schema: string
  /** The mistakes in a policy file, one a line. */
  checkPolicy(file: string): Promise<readonly string[]>
}

/** Rejects with `InitError`, `ConfigurationError` or the error of the file system; nothing is changed then. */
export async function applyPlan(application: Application): Promise<void> {
  const { entries, journal, journalFile } = application
  const servers = Object.fromEntries(entries.map(({ server }) => [server.name, server.definition]))
  const next: Journal = {
    version: 1,
    written: { ...journal?.written },
    servers: { ...journal?.servers, ...servers },
    packages: [...(journal?.packages ?? [])],
    changes: [...(journal?.changes ?? [])],
  }
  checkState(application.dir)
  const undo: (() => void)[] = []
  try {
    const configurations = [...new Set(entries.map(({ file }) => file))].map((file) => changed(file, entries))
    undo.push(() => (journal === undefined ? journalFile.remove() : journalFile.write(journal)))
    await writeFiles(application, next, undo)
    for (const { file, bytes, edits } of configurations) {
      next.changes.push(changeOf(file, bytes, edits, journalFile, undo))
    }
    journalFile.write(next)
    for (const { file, bytes } of configurations) {
      if (readIfPresent(file.realPath)?.equals(file.bytes) !== true) {
        throw new InitError(`${file.file} changed while init ran; run it again`)
      }
      replaceContent(file.realPath, bytes)
      undo.push(() => replaceContent(file.realPath, file.bytes))
    }
  } catch (error) {
    for (const takeBack of undo.reverse()) takeBack()
    removeEmptyDirectories(application.dir)
    throw error
  }
}

/** Removes the directories that init made, unless there is something else in them. */
export function removeEmptyDirectories(dir: string): void {
  const secrets = join(dir, fileNames.state, 'secrets')
  for (const server of existsSync(secrets) ? readdirSync(secrets) : []) removeIfEmpty(join(secrets, server))
  for (const name of ['secrets', 'undo', '']) removeIfEmpty(join(dir, fileNames.state, name))
  removeIfEmpty(join(dir, packagesDirectory))
}

interface Configuration {
  readonly file: ClientConfiguration
  /** With the changes. */
  readonly bytes: Buffer
  readonly edits: readonly PlannedEntry[]
}

/** The result is parsed again: an edit may not change anything but its members. */
function changed(file: ClientConfiguration, entries: readonly PlannedEntry[]): Configuration {
  const edits = entries.filter((entry) => entry.file === file)
  const before = decodeConfiguration(file.bytes)
  const expected = parseConfiguration(before, file.hasComments).value
  let text = before
  for (const { found, members } of edits) {
    text = editMembers(text, found.path, members)
    const entry = found.path.reduce<unknown>(
      (value, name) => (isJsonObject(value) ? value[name] : undefined),
      expected,
    )
    if (isJsonObject(entry)) applyMembers(entry, members)
  }
  if (!isDeepStrictEqual(parseConfiguration(text, file.hasComments).value, expected)) {
    throw new ConfigurationError(`${file.file} cannot be edited without changing more than its servers`)
  }
  return { file, bytes: encodeConfiguration(text, file.bytes), edits }
}

/** Sets members of an object; undefined removes one. */
export function applyMembers(
  object: Record<string, unknown>,
  members: Readonly<Record<string, unknown>>,
): void {
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) delete object[name]
    else object[name] = value
  }
}

function changeOf(
  { client, realPath, bytes: before, hasComments }: ClientConfiguration,
  bytes: Buffer,
  edits: readonly PlannedEntry[],
  journalFile: JournalFile,
  undo: (() => void)[],
): FileChange {
  const copy = journalFile.copy(before)
  undo.push(() => journalFile.removeCopy(copy))
  const entries = edits.map(({ found, members }) => ({
    path: [...found.path],
    set: Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)),
    removed: Object.keys(members).filter((name) => members[name] === undefined),
  }))
  return { client, file: realPath, copy, after: fileDigest(bytes), hasComments, entries }
}

/** Throws if the directory for secrets and the key may be another's. */
function checkState(dir: string): void {
  checkNoLink(join(dir, fileNames.state))
  for (const name of ['undo', 'secrets', '.gitignore']) checkNoLink(join(dir, fileNames.state, name))
  checkNoLink(join(dir, packagesDirectory))
  const secrets = join(dir, fileNames.state, 'secrets')
  for (const server of existsSync(secrets) ? readdirSync(secrets) : []) checkNoLink(join(secrets, server))
  const ignored = readIfPresent(join(dir, fileNames.ignore))?.toString() ?? ignoreAll
  if (ignored !== ignoreAll) {
    throw new InitError(`${join(dir, fileNames.ignore)} does not keep secrets out of git; write * into it`)
  }
  if (existsSync(join(dir, fileNames.key))) checkPrivate(join(dir, fileNames.key))
}

/** A clone may have links to directories that it adds to git, which does not read a .gitignore that is a link. */
function checkNoLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return
  throw new InitError(`${path} is a symbolic link; files would be outside, or git would add secrets`)
}

/** Writes what is not there yet. The journal has each file before it is written, so that a killed run can be undone. */
async function writeFiles(application: Application, next: Journal, undo: (() => void)[]): Promise<void> {
  const { dir, journal, journalFile, entries, packages, preset, schema, checkPolicy } = application
  const { written } = next
  const create = (name: string, content: string, mode?: number) => {
    written[name] = fileDigest(Buffer.from(content))
    journalFile.write(next)
    createFile(join(dir, name), content, mode)
    undo.push(() => rmSync(join(dir, name)))
  }
  const servers = [...new Set(entries.map(({ server }) => server))]
  const missing = (name: string) => !existsSync(join(dir, name))
  if (missing(fileNames.ignore)) create(fileNames.ignore, ignoreAll)
  if (missing(fileNames.schema)) create(fileNames.schema, schema)
  if (packages.size > 0 && missing(fileNames.ignoreModules))
    create(fileNames.ignoreModules, 'node_modules/\n', 0o644)
  for (const [path, value] of servers.flatMap(({ secrets }) => [...secrets])) create(path, value)
  if (missing(fileNames.key)) {
    const path = join(dir, fileNames.key)
    generateKeyFile(path)
    undo.push(() => rmSync(path))
    written[fileNames.key] = fileDigest(readIfPresent(path) ?? Buffer.alloc(0))
  }
  for (const server of servers) copyPackage(server, application, next, create, undo)
  const policy = join(dir, fileNames.policy)
  if (journal === undefined) {
    create(fileNames.policy, policyOf(application, servers), 0o644)
    if (missing(fileNames.test)) create(fileNames.test, firstTest(preset, fileNames.policy, servers), 0o644)
  } else {
    const before = readIfPresent(policy)
    if (before === undefined) throw new InitError(`${policy} is gone`)
    const text = extendedPolicy(before.toString(), servers)
    replaceContent(policy, text)
    undo.push(() => replaceContent(policy, before))
    // A policy that its owner has changed since stays changed, and is kept by --undo.
    if (fileDigest(before) === written[fileNames.policy])
      written[fileNames.policy] = fileDigest(Buffer.from(text))
  }
  const mistakes = await checkPolicy(policy)
  if (mistakes.length > 0) throw new InitError(`the policy would not load:\n${mistakes.join('\n')}`)
}

/** Copies the package of a server to the policy; its lock file comes last, when the rest is complete. */
function copyPackage(
  { name, packageSpec }: PlannedServer,
  { dir, packages, journalFile }: Application,
  next: Journal,
  create: (name: string, content: string, mode?: number) => void,
  undo: (() => void)[],
): void {
  const installed = packageSpec === undefined ? undefined : packages.get(packageSpec)
  if (installed === undefined) return
  const path = join(dir, packagesDirectory, name)
  if (existsSync(path)) throw new InitError(`${path} exists, and init did not write it`)
  next.packages.push(name)
  journalFile.write(next)
  undo.push(() => rmSync(path, { recursive: true, force: true }))
  const modules = join(installed.directory, 'node_modules')
  cpSync(modules, join(path, 'node_modules'), { recursive: true, verbatimSymlinks: true })
  for (const file of packageFiles) {
    create(
      `${packagesDirectory}/${name}/${file}`,
      readFileSync(join(installed.directory, file), 'utf8'),
      0o644,
    )
  }
}

function policyOf({ preset, place }: Application, servers: readonly PlannedServer[]): string {
  return newPolicy(preset, servers, {
    ...place,
    schemaPath: fileNames.schema,
    stateDir: fileNames.state,
    keyPath: fileNames.key,
  })
}
