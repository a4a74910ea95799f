// Installs the packages that entries of clients run by `npx`: each in a directory of its own beside the policy, with a lock
// file that has a hash of every package. Install scripts do not run.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { isJsonObject, messageOf, parseJsonObject } from '@svc/core/json'
import { readNpx } from '../stdio/targets/environment.js'
import type { ServerEntry } from './entry.js'

const run = promisify(execFile)

/** Directory of the packages, from that of the policy. */
export const packagesDirectory = 'mcp-servers'
/** The installation of a package, from which `npm ci` makes it anew. */
export const packageFiles = ['package.json', 'package-lock.json'] as const

const installMs = 600_000
// The user's npm configuration may set the opposite of each.
const flags = [
  '--ignore-scripts',
  '--package-lock',
  '--save',
  '--save-exact',
  '--global=false',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
]

/** A package in a temporary directory. */
export interface InstalledPackage {
  readonly directory: string
  /** The name of its program in `node_modules/.bin`. */
  readonly program: string
}

/** The package of an entry, as npm takes it; undefined if the entry does not run one by `npx`. */
export function packageOf(entry: ServerEntry): string | undefined {
  return entry.kind === 'command' ? readNpx(entry.command, entry.args)?.spec : undefined
}

/** The message says why a package cannot be run. */
class PackageError extends Error {}

/** Packages by the specification that npm got, in a temporary directory until they are copied to the policy. */
export class Packages implements Disposable {
  readonly installed = new Map<string, InstalledPackage>()
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #directory = mkdtempSync(join(tmpdir(), 'svc-init-'))

  constructor(env: Readonly<Record<string, string | undefined>>) {
    this.#env = env
  }

  /** Returns why the package cannot be run; undefined if it is installed. */
  async install(spec: string): Promise<string | undefined> {
    if (this.installed.has(spec)) return undefined
    const directory = join(this.#directory, encodeURIComponent(spec))
    mkdirSync(directory)
    try {
      await this.#npm(directory, spec)
      this.installed.set(spec, { directory, program: programIn(directory, spec) })
      return undefined
    } catch (error) {
      if (error instanceof PackageError) return error.message
      throw error
    }
  }

  [Symbol.dispose](): void {
    // With retries, as npm may have been killed in the middle of its writes.
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 })
  }

  async #npm(directory: string, spec: string): Promise<void> {
    writeFileSync(join(directory, 'package.json'), '{ "private": true }\n')
    try {
      const options = { cwd: directory, env: this.#env, timeout: installMs, killSignal: 'SIGKILL' } as const
      await run('npm', ['install', ...flags, `--prefix=${directory}`, '--', spec], options)
    } catch (cause) {
      const stderr = isJsonObject(cause) && typeof cause['stderr'] === 'string' ? cause['stderr'] : ''
      const errors = stderr.split('\n').filter((line) => line.startsWith('npm error'))
      const reason = errors.slice(0, 3).join(' ') || messageOf(cause)
      throw new PackageError(`its package ${spec} cannot be installed: ${reason}`, { cause })
    }
  }
}

/** Throws if the lock file has a package without a hash, or npx would not know which program to run. */
function programIn(directory: string, spec: string): string {
  const [[name] = ['']] = membersIn(directory, 'dependencies', 'package.json')
  const locked = membersIn(directory, 'packages', 'package-lock.json').filter(([path]) => path !== '')
  for (const [path, entry] of locked) {
    if (!isJsonObject(entry) || typeof entry['integrity'] !== 'string')
      throw new PackageError(`its package ${spec} cannot be locked: ${path} has no hash`)
  }
  if (!locked.some(([path]) => path === `node_modules/${name}`))
    throw new PackageError(`its package ${spec} cannot be locked: npm wrote no lock file`)
  const own = basename(name)
  const manifest = parseJsonObject(
    readFileSync(join(directory, 'node_modules', name, 'package.json'), 'utf8'),
  )
  const bin = manifest?.['bin']
  const programs = typeof bin === 'string' ? [own] : Object.keys(isJsonObject(bin) ? bin : {})
  const [program] = programs.includes(own) ? [own] : programs
  if (program === undefined || (programs.length > 1 && program !== own) || !/^\w[\w.-]*$/.test(program))
    throw new PackageError(`its package ${spec} has no program that npx would run`)
  return program
}

/** The members of an object in a file that npm writes; none if they are not there. */
function membersIn(directory: string, member: string, file: string): [string, unknown][] {
  const path = join(directory, file)
  const object = existsSync(path) ? parseJsonObject(readFileSync(path, 'utf8'))?.[member] : undefined
  return isJsonObject(object) ? Object.entries(object) : []
}
