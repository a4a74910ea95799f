// Makes directories recursively. Node's own recursive mkdir loops forever on file systems such as /proc, which report
// an existing directory as missing.
import { mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

export { fileSystemKind, fileSystemRisk } from './file-system-kind.js'

/**
 * Makes `path` and its missing parents. Returns the first directory that was made, undefined if all existed.
 * Throws the system's error.
 */
export function makeDirectories(path: string, mode: number): string | undefined {
  return make(resolve(path), mode)
}

function make(path: string, mode: number): string | undefined {
  try {
    return makeOne(path, mode) ? path : undefined
  } catch (error) {
    const parent = dirname(path)
    // If the parent is a file, the error of its own creation says so.
    if (!(isCode(error, 'ENOENT') || isCode(error, 'ENOTDIR')) || parent === path) throw error
    const first = make(parent, mode)
    return makeOne(path, mode) ? (first ?? path) : first
  }
}

/** False if the directory exists. */
function makeOne(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode })
    return true
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
    if (statSync(path).isDirectory()) return false
    throw Object.assign(new Error(`${path} is not a directory`, { cause: error }), { code: 'ENOTDIR' })
  }
}

function isCode(error: unknown, code: string): boolean {
  // In the context of a test runner, errors of Node's modules are of another realm.
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code
}
