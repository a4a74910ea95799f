// Reads key references of a policy: `env:NAME`, `file://PATH` and `command:NAME`. Any other text may be a key that was written in place of
// its reference, so no message quotes it.
import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { messageOf } from '../json/message.js'
import type { PluginContext } from '../plugin/plugin.js'
import type { Clock } from '../plugin/tokens.js'
import { KeyError } from './key-error.js'
import { isBelow, keyFileError, maxKeyBytes, readKeyFile } from './key-file.js'
import { CommandSecret } from './secret-command.js'

const FILE = 'file://'
const ENV = 'env:'
const COMMAND = 'command:'
const envName = /^[A-Za-z_][A-Za-z0-9_]*$/

/** `foreign` is a reference with another scheme, for a CredentialSource. */
export type KeyLocation =
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'command'; readonly name: string }
  | { readonly kind: 'foreign' }

/** The members of a policy's context that a reader needs. */
export type KeyPlace = Pick<PluginContext, 'baseDir' | 'stateDir' | 'env' | 'secrets'>

export class KeyReader {
  #baseDir: string
  #directories: readonly string[]
  #env: Readonly<Record<string, string | undefined>>
  #commands: ReadonlyMap<string, CommandSecret>

  /** `directories`, relative to the policy's, may contain key files; default: the policy's and the gateway's. */
  constructor(context: KeyPlace, directories?: readonly string[]) {
    const { baseDir, stateDir, env = process.env, secrets = {} } = context
    this.#baseDir = baseDir
    this.#directories = (directories ?? [baseDir, stateDir]).map((directory) => resolve(baseDir, directory))
    this.#env = env
    const now = () => performance.now()
    this.#commands = new Map(
      Object.entries(secrets).map(([name, command]) => [
        name,
        new CommandSecret({ name, command, cwd: baseDir, env, now }),
      ]),
    )
  }

  /** The parsed reference. Throws `KeyError` for an invalid one. */
  locate(ref: string): KeyLocation {
    if (ref.startsWith(ENV)) {
      const name = ref.slice(ENV.length)
      if (envName.test(name)) return { kind: 'env', name }
      throw new KeyError('key_ref', 'the reference names no environment variable; accepted is env:NAME')
    }
    if (ref.startsWith(COMMAND)) {
      const name = ref.slice(COMMAND.length)
      if (this.#commands.has(name)) return { kind: 'command', name }
      throw new KeyError('key_ref', 'the reference names no command of `secrets`; accepted is command:NAME')
    }
    if (!ref.startsWith(FILE)) return { kind: 'foreign' }
    const path = resolve(this.#baseDir, decodePath(ref.slice(FILE.length)))
    if (isBelow(path, this.#directories)) return { kind: 'file', path }
    const message = `the key file ${path} is outside the directories for keys (${this.#directories.join(', ')})`
    throw new KeyError('key_elsewhere', message)
  }

  /** Why the file of a reference cannot be read; undefined if it can, and for other references. */
  fileError(ref: string): string | undefined {
    try {
      const location = this.locate(ref)
      if (location.kind !== 'file') return undefined
      const { path } = location
      try {
        accessSync(path, constants.R_OK)
        return statSync(path).isFile() ? undefined : `the key file ${path} is not a regular file`
      } catch (error) {
        return keyFileError(path, error).message
      }
    } catch (error) {
      return messageOf(error)
    }
  }

  /**
   * The key, never empty, without surrounding white space. A file and the output of a command may have at most `maxBytes`.
   * Rejects with `KeyError`.
   */
  async read(ref: string, maxBytes = maxKeyBytes): Promise<string> {
    const location = this.locate(ref)
    if (location.kind === 'file') return readKeyFile(location.path, this.#directories, maxBytes)
    if (location.kind === 'env') return this.#fromEnvironment(location.name)
    if (location.kind === 'command') return this.#command(location.name).read(maxBytes)
    throw new KeyError('key_ref', 'not a key reference; accepted are env:NAME, file://PATH and command:NAME')
  }

  /** A key was refused where it was used: a command runs again for the next read. */
  refuse(ref: string): void {
    const location = this.locate(ref)
    if (location.kind === 'command') this.#command(location.name).refuse()
  }

  #command(name: string): CommandSecret {
    const command = this.#commands.get(name)
    if (command === undefined) throw new KeyError('key_ref', 'the reference names no command of `secrets`')
    return command
  }

  #fromEnvironment(name: string): string {
    const value = Object.hasOwn(this.#env, name) ? this.#env[name]?.trim() : undefined
    if (value === undefined) throw new KeyError('key_missing', `the environment variable ${name} is not set`)
    if (value === '') throw new KeyError('key_malformed', `the environment variable ${name} is empty`)
    return value
  }
}

function decodePath(path: string): string {
  if (path === '' || path.includes('\0')) {
    throw new KeyError('key_ref', 'the reference names no file; accepted is file://PATH')
  }
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    // The path is not percent-encoded, so it is used as written.
    if (cause instanceof URIError) return path
    throw cause
  }
}

/** The result of `read`, which runs again after `ms` milliseconds, and after it has failed. */
export function cachedFor<T>(
  ms: number,
  clock: Pick<Clock, 'monotonic'>,
  read: () => Promise<T>,
): () => Promise<T> {
  let cached: { readonly value: Promise<T>; readonly until: number } | undefined
  return () => {
    const now = clock.monotonic()
    if (cached === undefined || now >= cached.until) {
      const started = { value: read(), until: now + ms }
      cached = started
      started.value.catch(() => {
        if (cached === started) cached = undefined
      })
    }
    return cached.value
  }
}
