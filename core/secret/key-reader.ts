// Key references of a policy: `env:NAME` and `file://PATH`. A reference of another form may be a key that was
// written where its reference belongs, so no message quotes one.
import { resolve } from 'node:path'
import type { PluginContext } from '../plugin/plugin.js'
import { KeyError } from './key-error.js'
import { isBelow, readKeyFile } from './key-file.js'

const FILE = 'file://'
const ENV = 'env:'
const envName = /^[A-Za-z_][A-Za-z0-9_]*$/

/** `foreign` is a reference of another scheme, for which somebody else has to speak. */
export type KeyLocation =
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'foreign' }

export class KeyReader {
  #baseDir: string
  #directories: readonly string[]
  #env: Readonly<Record<string, string | undefined>>

  /** `directories`, from the policy's own, are where files may lie: the policy's and the gateway's by default. */
  constructor(context: Pick<PluginContext, 'baseDir' | 'stateDir' | 'env'>, directories?: readonly string[]) {
    const { baseDir, stateDir, env = process.env } = context
    this.#baseDir = baseDir
    this.#directories = (directories ?? [baseDir, stateDir]).map((directory) => resolve(baseDir, directory))
    this.#env = env
  }

  /** Where the reference leads. Throws `KeyError` for one that can never be followed. */
  locate(ref: string): KeyLocation {
    if (ref.startsWith(ENV)) {
      const name = ref.slice(ENV.length)
      if (envName.test(name)) return { kind: 'env', name }
      throw new KeyError('key_ref', 'the reference names no environment variable; accepted is env:NAME')
    }
    if (!ref.startsWith(FILE)) return { kind: 'foreign' }
    const path = resolve(this.#baseDir, decoded(ref.slice(FILE.length)))
    if (isBelow(path, this.#directories)) return { kind: 'file', path }
    const message = `the key file ${path} lies outside the directories that keys may lie in (${this.#directories.join(', ')})`
    throw new KeyError('key_elsewhere', message)
  }

  /**
   * The key, never empty, without white space around it. A file may have `maxBytes`, by default as many as a key
   * can need. Rejects with `KeyError`.
   */
  async read(ref: string, maxBytes?: number): Promise<string> {
    const place = this.locate(ref)
    if (place.kind === 'file') return readKeyFile(place.path, this.#directories, maxBytes)
    if (place.kind === 'env') return this.#fromEnvironment(place.name)
    throw new KeyError('key_ref', 'not a key reference; accepted are env:NAME and file://PATH')
  }

  #fromEnvironment(name: string): string {
    const value = Object.hasOwn(this.#env, name) ? this.#env[name]?.trim() : undefined
    if (value === undefined) throw new KeyError('key_missing', `the environment variable ${name} is not set`)
    if (value === '') throw new KeyError('key_malformed', `the environment variable ${name} is empty`)
    return value
  }
}

function decoded(path: string): string {
  if (path === '' || path.includes('\0')) {
    throw new KeyError('key_ref', 'the reference names no file; accepted is file://PATH')
  }
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    // Not percent-encoding after all: then the path is meant as it stands.
    if (cause instanceof URIError) return path
    throw cause
  }
}
