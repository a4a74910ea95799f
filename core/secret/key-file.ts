// Reads a key from a file below the allowed directories: the authors of a policy may not be allowed to read every file
// of the machine.
import { constants, realpath } from 'node:fs'
import { open } from 'node:fs/promises'
import { sep } from 'node:path'
import { promisify } from 'node:util'
import { isKeyError, KeyError } from './key-error.js'

/** Twice the size of an RSA 8192 key in PEM. */
export const maxKeyBytes = 16_384
const WORLD_WRITABLE = 0o002

const realPath = promisify(realpath.native)

/**
 * The text of the file without white space around it. `path` and `directories` are absolute; symbolic links
 * are followed if they end below one of the directories. Rejects with `KeyError`.
 */
export async function readKeyFile(
  path: string,
  directories: readonly string[],
  maxBytes: number,
): Promise<string> {
  const file = await realPath(path).catch((error: unknown) => {
    throw keyFileError(path, error)
  })
  if (!isBelow(file, await existing(directories))) {
    throw new KeyError('key_elsewhere', `the key file ${path} is outside the directories for keys`)
  }
  return textOf(path, await contentOf(path, file, maxBytes))
}

/** Whether an absolute path is one of the directories or below one. */
export function isBelow(path: string, directories: readonly string[]): boolean {
  return directories.some((directory) => {
    const prefix = directory.endsWith(sep) ? directory : directory + sep
    return path === directory || path.startsWith(prefix)
  })
}

/** The real paths of the directories that exist. */
async function existing(directories: readonly string[]): Promise<string[]> {
  const names = await Promise.allSettled(directories.map((directory) => realPath(directory)))
  return names.flatMap((name) => (name.status === 'fulfilled' ? [name.value] : []))
}

async function contentOf(path: string, file: string, maxBytes: number): Promise<Uint8Array> {
  // A link that was created after the check could lead elsewhere; a named pipe must not block the call.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(file, flags).catch((error: unknown) => {
    throw keyFileError(path, error)
  })
  try {
    const stat = await handle.stat()
    if (stat.isDirectory()) throw new KeyError('key_unreadable', `the key file ${path} is a directory`)
    if (!stat.isFile()) throw new KeyError('key_unreadable', `the key file ${path} is not a regular file`)
    if (process.platform !== 'win32' && stat.mode & WORLD_WRITABLE) {
      throw new KeyError('key_unreadable', `the key file ${path} is writable by everyone: chmod 600 it`)
    }
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxBytes + 1), 0, maxBytes + 1, 0)
    if (bytesRead > maxBytes) {
      throw new KeyError(
        'key_malformed',
        `the key file ${path} is larger than ${maxBytes} bytes, too large for a key`,
      )
    }
    return buffer.subarray(0, bytesRead)
  } catch (error) {
    throw isKeyError(error) ? error : keyFileError(path, error)
  } finally {
    await handle.close()
  }
}

function textOf(path: string, bytes: Uint8Array): string {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
  } catch (cause) {
    throw new KeyError('key_malformed', `the key file ${path} is not UTF-8 text`, { cause })
  }
  if (text === '') throw new KeyError('key_malformed', `the key file ${path} is empty`)
  return text
}

/** Why a key file cannot be opened. */
export function keyFileError(path: string, error: unknown): KeyError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    return new KeyError('key_missing', `there is no key file ${path}`, { cause: error })
  }
  return new KeyError('key_unreadable', `the key file ${path} cannot be read (${code})`, { cause: error })
}
