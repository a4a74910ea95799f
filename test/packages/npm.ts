// The workspace as npm publishes it, a registry on loopback, and projects that install from there.
import { execFile, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { endWithRunner } from '../support/child-lifetime.js'

const execute = promisify(execFile)

/** Root of the checkout. */
export const root = fileURLToPath(new URL('../../../', import.meta.url))

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
}

export function manifestIn(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

/** Folders of the packages that are published, relative to the root. */
export function publishedFolders(): string[] {
  const plugins = readdirSync(join(root, 'plugins')).map((name) => `plugins/${name}`)
  return ['core', ...plugins, 'app', 'control-plane']
    .filter((folder) => existsSync(join(root, folder, 'package.json')))
    .filter((folder) => manifestIn(join(root, folder)).private !== true)
}

/** Runs a program to its end; rejects, with what it printed, when it fails. */
export async function run(
  program: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ stdout: string; stderr: string }> {
  // There is no coverage, because the programs are installed, not built in this checkout.
  const { NODE_V8_COVERAGE: _, ...inherited } = process.env
  try {
    return await execute(program, args, { cwd, env: { ...inherited, ...env }, maxBuffer: 2 ** 26 })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${program} ${args[0]} failed: ${stdout}${stderr}`, { cause: error })
  }
}

/** The part of npm that the tests use, with its own cache. The flags override the settings of the machine's npm. */
export class Npm {
  readonly #flags: readonly string[]

  constructor(registry: string, cache: string) {
    const token = `--${registry.replace(/^http:/, '')}:_authToken=unchecked`
    this.#flags = ['--registry', registry, token, '--cache', cache, '--no-audit', '--no-fund']
  }

  /** The warnings of npm; empty if it corrected nothing. */
  async publish(cwd: string, workspaces: readonly string[] = []): Promise<string[]> {
    const named = workspaces.flatMap((folder) => ['--workspace', folder])
    const { stderr } = await run('npm', ['publish', ...this.#flags, ...named], cwd)
    return stderr.split('\n').filter((line) => line.startsWith('npm warn publish'))
  }

  async install(project: string, ...args: string[]): Promise<void> {
    await run('npm', ['install', ...this.#flags, '--ignore-scripts', ...args], project)
  }
}

export interface Registry extends AsyncDisposable {
  readonly url: string
}

/** Fetches missing packages from the registry that npm uses on this machine. */
export async function startRegistry(storage: string): Promise<Registry> {
  const { stdout: uplink } = await run('npm', ['config', 'get', 'registry'], root)
  const script = fileURLToPath(new URL('./registry-process.js', import.meta.url))
  const child = endWithRunner(
    spawn(process.execPath, [script, storage, uplink.trim()], { stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const { value: port, done } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
  if (done === true) throw new Error('the registry did not start')
  return {
    url: `http://127.0.0.1:${port}/`,
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
    },
  }
}
