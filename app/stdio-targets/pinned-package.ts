// A package that `npx` would fetch anew with each start, installed from a lock file instead. The first installation
// writes the lock; each later one must match it, by the hashes in it. Install scripts do not run.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { isJsonObject, parseJsonObject } from '@svc/core/json'
import { inheritedVariables } from './environment.js'
import type { NpxCommand } from './npx-command.js'

const run = promisify(execFile)

const installMs = 600_000
const flags = [
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  // A call waits: by default npm would wait 70 s between three attempts.
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
]
export class PinnedPackage {
  #npx: NpxCommand
  /** Holds the lock, and the installation of each running gateway. */
  #home: string
  #installed: Promise<string> | undefined
  #directory: string | undefined
  #closing = new AbortController()

  constructor(npx: NpxCommand, stateDir: string) {
    this.#npx = npx
    this.#home = join(stateDir, 'stdio', encodeURIComponent(npx.spec))
  }

  /** The path of its program, installed once in the life of this object. Rejects with npm's message. */
  program(): Promise<string> {
    this.#installed ??= this.#install().catch((error: unknown) => {
      this.#installed = undefined
      throw error
    })
    return this.#installed
  }

  /** Ends an installation that is running, and removes what was installed; the lock stays. */
  async close(): Promise<void> {
    this.#closing.abort()
    // A failure is reported to the callers of the installation.
    await Promise.allSettled([this.#installed])
    if (this.#directory !== undefined) await remove(this.#directory)
  }

  async #install(): Promise<string> {
    await mkdir(this.#home, { recursive: true, mode: 0o700 })
    await this.#removeStale()
    await this.#writeLock()
    // Each gateway has its own directory, as `npm ci` removes what another may run.
    const directory = await mkdtemp(join(this.#home, `run-${process.pid}-`))
    try {
      await cp(join(this.#home, 'lock'), directory, { recursive: true })
      await this.#npm(directory, 'ci', '--prefer-offline', ...flags)
      const program = join(directory, 'node_modules', '.bin', await this.#binary(directory))
      this.#directory = directory
      return program
    } catch (error) {
      await remove(directory)
      throw error
    }
  }

  /** Writes the lock in a draft, which is renamed when complete; of two gateways that write it, the first counts. */
  async #writeLock(): Promise<void> {
    const lock = join(this.#home, 'lock')
    if (!existsSync(join(lock, 'package-lock.json'))) {
      const draft = await mkdtemp(join(this.#home, `lock-${process.pid}-`))
      try {
        await writeFile(join(draft, 'package.json'), '{"private":true}\n')
        await this.#npm(draft, 'install', '--package-lock-only', '--save-exact', ...flags, this.#npx.spec)
        await rename(draft, lock)
      } catch (error) {
        await remove(draft)
        if (!existsSync(join(lock, 'package-lock.json'))) throw error
      }
    }
    checkHashes(await readFile(join(lock, 'package-lock.json'), 'utf8'))
  }

  /** Removes the files of gateways that were killed. */
  async #removeStale(): Promise<void> {
    for (const name of await readdir(this.#home)) {
      const [, pid] = /^(?:run|lock)-(\d+)-/.exec(name) ?? []
      if (pid === undefined || isRunning(Number(pid))) continue
      await remove(join(this.#home, name))
    }
  }

  async #npm(directory: string, ...args: readonly string[]): Promise<void> {
    const { signal } = this.#closing
    try {
      const options = { cwd: directory, env: npmEnvironment(), timeout: installMs }
      await run('npm', args, { ...options, signal, killSignal: 'SIGKILL' })
    } catch (cause) {
      if (signal.aborted) throw new Error('the gateway is closing', { cause })
      const stderr = isJsonObject(cause) && typeof cause['stderr'] === 'string' ? cause['stderr'] : ''
      const errors = stderr.split('\n').filter((line) => line.startsWith('npm error'))
      throw new Error(`npm ${args[0]} failed: ${errors.slice(0, 3).join(' ') || 'no message'}`, { cause })
    }
  }

  async #binary(directory: string): Promise<string> {
    const { name } = this.#npx
    const manifest = parseJsonObject(
      await readFile(join(directory, 'node_modules', name, 'package.json'), 'utf8'),
    )
    const own = basename(name)
    const bin = manifest?.['bin']
    if (typeof bin === 'string') return own
    const names = isJsonObject(bin) ? Object.keys(bin) : []
    const [only] = names
    const chosen = names.includes(own) ? own : names.length === 1 ? only : undefined
    if (chosen === undefined) throw new Error(`the package ${name} has no program that npx would run`)
    return chosen
  }
}

/** Throws if a package in the lock has no hash that the installation checks. */
function checkHashes(lock: string): void {
  const packages = parseJsonObject(lock)?.['packages']
  for (const [path, entry] of Object.entries(isJsonObject(packages) ? packages : {})) {
    if (path !== '' && !(isJsonObject(entry) && typeof entry['integrity'] === 'string')) {
      throw new Error(`the lock file has no hash of ${path}`)
    }
  }
}

/** Removes with retries, as npm may have been killed in the middle of its writes. */
function remove(directory: string): Promise<void> {
  return rm(directory, { recursive: true, force: true, maxRetries: 3 })
}

/** The part of the gateway's environment that npm needs. */
function npmEnvironment(): Record<string, string> {
  const needed = /^(?:npm_config_.*|https?_proxy|no_proxy|node_extra_ca_certs)$/i
  const listed: readonly string[] = inheritedVariables
  const entries = Object.entries(process.env).filter(([name]) => listed.includes(name) || needed.test(name))
  return Object.fromEntries(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // A process of another user runs as well.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
