// The journal of `svc init`, for `--undo`: the files that it wrote, and a copy of each configuration that it changed. It is in
// `.svc/undo`, readable by its owner only, because configurations contain secrets.
import { lstatSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { createFile, readIfPresent, replaceContent } from './files.js'

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

const changeSchema = z.strictObject({
  client: z.string(),
  /** The real path of the configuration. */
  file: z.string(),
  /** The name of the copy, which has the bytes before. */
  copy: z.string().regex(/^\d+$/),
  /** SHA-256 of the file after the change. */
  after: sha256,
  hasComments: z.boolean(),
  entries: z.array(
    z.strictObject({
      path: z.array(z.string()),
      /** Members that were set, and those that were removed. */
      set: z.record(z.string(), z.unknown()),
      removed: z.array(z.string()),
    }),
  ),
})

const journalSchema = z.strictObject({
  version: z.literal(1),
  /** SHA-256 of each file that init wrote, by its path from the directory of the policy. */
  written: z.record(z.string(), sha256),
  /** SHA-256 of the definition of each server, by its name. */
  servers: z.record(z.string(), sha256),
  /** Servers whose packages init installed, in directories of their names. */
  packages: z.array(z.string().regex(/^\w[\w.-]*$/)).default([]),
  /** In the order in which they were made. */
  changes: z.array(changeSchema),
})

export type FileChange = z.output<typeof changeSchema>
export type Journal = z.output<typeof journalSchema>

/** Nothing was changed; the message says why. */
export class InitError extends Error {
  override readonly name = 'InitError'
}

/**
 * Throws for a file that others may have written. A journal that came with a clone could put anything into the user's
 * configurations, and the key of a clone is known to its author.
 */
export function checkPrivate(path: string): void {
  if (process.platform === 'win32') return
  const { mode, uid } = lstatSync(path)
  if ((mode & 0o177) !== 0 || uid !== process.getuid?.()) {
    throw new InitError(`${path} is not a file that svc wrote for you alone`)
  }
}

/** The journal of a directory, which is that of a policy. */
export class JournalFile {
  readonly directory: string
  readonly path: string

  constructor(stateDir: string) {
    this.directory = join(stateDir, 'undo')
    this.path = join(this.directory, 'journal.json')
  }

  /** Undefined if there is none. Throws `InitError`. */
  read(): Journal | undefined {
    const bytes = readIfPresent(this.path)
    if (bytes === undefined) return undefined
    checkPrivate(this.path)
    try {
      return journalSchema.parse(JSON.parse(bytes.toString()))
    } catch (cause) {
      throw new InitError(`${this.path} is not a journal of svc init`, { cause })
    }
  }

  write(journal: Journal): void {
    const text = `${JSON.stringify(journal, null, 2)}\n`
    if (readIfPresent(this.path) === undefined) createFile(this.path, text)
    else replaceContent(this.path, text)
  }

  remove(): void {
    rmSync(this.path, { force: true })
  }

  /** Writes a copy of a configuration and returns its name. */
  copy(bytes: Uint8Array): string {
    let number = 1
    while (readIfPresent(this.#copyPath(String(number))) !== undefined) number++
    createFile(this.#copyPath(String(number)), bytes)
    return String(number)
  }

  removeCopy(name: string): void {
    rmSync(this.#copyPath(name))
  }

  /** Throws `InitError` if there is no copy. */
  copied({ copy }: FileChange): Buffer {
    const bytes = readIfPresent(this.#copyPath(copy))
    if (bytes === undefined) throw new InitError(`the copy ${this.#copyPath(copy)} is gone`)
    return bytes
  }

  #copyPath(name: string): string {
    return join(this.directory, name)
  }
}
