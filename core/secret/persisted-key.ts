// A key that the gateway needs and nobody else: made by the first process that wants it, kept in the gateway's
// directory, or given by reference where several hosts have to have the same.
import { randomBytes } from 'node:crypto'
import { link, open, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { PluginContext } from '../plugin/plugin.js'
import { makeDirectories } from '../store/directories.js'
import { KeyReader } from './key-reader.js'

/** Base64 of 24 random bytes; anything shorter was typed by a person. */
const leastLength = 32
const FOR_OTHERS = 0o077

type Place = Pick<PluginContext, 'baseDir' | 'stateDir' | 'env'>

export interface PersistedKey {
  /** Its name in the gateway's directory. */
  readonly fileName: string
  /** `env:NAME` or `file://PATH`, in place of that file. */
  readonly ref?: string | undefined
  /** Whose key it is, for messages: `privacy`. */
  readonly owner: string
}

/** The key's text, whose bytes are the key. Rejects with `KeyError`, or an error that says what is wrong. */
export async function loadOrCreateKey({ fileName, ref, owner }: PersistedKey, place: Place): Promise<string> {
  const path = join(place.stateDir, fileName)
  if (ref === undefined) {
    await makeUnlessThere(path, place.stateDir)
    await checkMode(path, owner)
  }
  const reader = ref === undefined ? new KeyReader(place, [place.stateDir]) : new KeyReader(place)
  const key = await reader.read(ref ?? `file://${encodeURI(path)}`)
  if (key.length >= leastLength) return key
  throw new Error(
    `${owner}: the key has ${key.length} characters; at least ${leastLength} random ones are wanted`,
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

async function checkMode(path: string, owner: string): Promise<void> {
  if (process.platform === 'win32') return
  const { mode } = await stat(path)
  if ((mode & FOR_OTHERS) !== 0) throw new Error(`${owner}: others may read the key ${path}: chmod 600 it`)
}

function codeOf(fault: unknown): string | undefined {
  return fault instanceof Error && 'code' in fault ? String(fault.code) : undefined
}
