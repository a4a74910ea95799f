// The key that makes pseudonyms impossible to guess: without it nobody can hash a list of e-mail addresses and
// compare.
import { randomBytes } from 'node:crypto'
import { link, open, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { KeyReader, makeDirectories, type PluginContext } from '@svc/core'

const fileName = 'privacy.key'
/** Base64 of 24 random bytes; anything shorter was typed by a person. */
const leastLength = 32
const FOR_OTHERS = 0o077

/**
 * The key's text, whose bytes are the HMAC key. Without `ref` it is kept in the gateway's directory, where the
 * first process that needs it makes it. Rejects with `KeyError`, or an error that says what is wrong.
 */
export async function privacyKey(ref: string | undefined, context: PluginContext): Promise<string> {
  const path = join(context.stateDir, fileName)
  if (ref === undefined) {
    await makeUnlessThere(path, context.stateDir)
    await checkMode(path)
  }
  const reader = ref === undefined ? new KeyReader(context, [context.stateDir]) : new KeyReader(context)
  const key = await reader.read(ref ?? `file://${encodeURI(path)}`)
  if (key.length >= leastLength) return key
  throw new Error(
    `privacy: the key has ${key.length} characters; at least ${leastLength} random ones are wanted`,
  )
}

/** Whole or not at all, and never over another process's. */
async function makeUnlessThere(path: string, directory: string): Promise<void> {
  makeDirectories(directory, 0o700)
  if (await isThere(path)) return
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${randomBytes(32).toString('base64')}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  try {
    await link(draft, path)
  } catch (fault) {
    if (codeOf(fault) !== 'EEXIST') throw fault
  } finally {
    await unlink(draft)
  }
  const folder = await open(directory)
  await folder.sync().finally(() => folder.close())
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (fault) {
    if (codeOf(fault) === 'ENOENT') return false
    throw fault
  }
}

async function checkMode(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const { mode } = await stat(path)
  if ((mode & FOR_OTHERS) !== 0) throw new Error(`privacy: others may read the key ${path}: chmod 600 it`)
}

function codeOf(fault: unknown): string | undefined {
  return fault instanceof Error && 'code' in fault ? String(fault.code) : undefined
}
