// A key of the gateway itself: created by the first process that needs it and stored in the gateway's directory, or given
// by reference if several hosts share it.
import { randomBytes } from 'node:crypto'
import { link, open, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectories } from '../disk/directories.js'
import { isKeyError, KeyError } from './key-error.js'
import { type KeyPlace, KeyReader } from './key-reader.js'

/** Base64 of 24 random bytes. A shorter key is not random enough. */
const minLength = 32
const FOR_OTHERS = 0o077

export interface PersistedKey {
  /** File name in the gateway's directory. */
  readonly fileName: string
  /** A key reference, instead of that file. */
  readonly ref?: string | undefined
  /** Returns the text of a new key; default 32 random bytes in base64. */
  readonly create?: () => string
  /** The owner of the key, for messages: `privacy`. */
  readonly owner: string
}

/** The key as text. Rejects with `KeyError`, or another error with the reason. */
export async function loadOrCreateKey(
  { fileName, ref, owner, create = randomKey }: PersistedKey,
  context: KeyPlace,
): Promise<string> {
  const path = join(context.stateDir, fileName)
  if (ref === undefined) {
    await createIfMissing(path, context.stateDir, create)
    await checkMode(path, owner)
  }
  const reader = ref === undefined ? new KeyReader(context, [context.stateDir]) : new KeyReader(context)
  const key = await reader.read(ref ?? `file://${encodeURI(path)}`).catch((cause: unknown) => {
    throw isKeyError(cause) ? new KeyError(cause.code, `${owner}: ${cause.message}`, { cause }) : cause
  })
  if (key.length >= minLength) return key
  throw new Error(
    `${owner}: the key has ${key.length} characters; at least ${minLength} random ones are required`,
  )
}

function randomKey(): string {
  return randomBytes(32).toString('base64')
}

/** Writes the file atomically, and never over the file of another process. */
async function createIfMissing(path: string, directory: string, create: () => string): Promise<void> {
  makeDirectories(directory, 0o700)
  if (await exists(path)) return
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${create()}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  try {
    await link(draft, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    await unlink(draft)
  }
  const folder = await open(directory)
  await folder.sync().finally(() => folder.close())
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

async function checkMode(path: string, owner: string): Promise<void> {
  if (process.platform === 'win32') return
  const { mode } = await stat(path)
  if ((mode & FOR_OTHERS) !== 0)
    throw new Error(`${owner}: the key ${path} is readable by others: chmod 600 it`)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}
