// What a policy's command comes to on this machine: the program, its environment and its directory.
import { resolve } from 'node:path'
import type { KeyReader } from '@svc/core/secret'
import { findCommand } from './command.js'
import type { StdioTarget } from './config.js'
import { environmentOf, type ServerEnvironment } from './environment.js'
import { PinnedPackage, readNpx } from './pinned-package.js'
import type { Launch } from './server-process.js'

/** Where a policy's paths and references start. */
export interface StdioPlace {
  readonly baseDir: string
  readonly stateDir: string
  readonly keys: KeyReader
}

export interface PreparedLaunch {
  readonly launch: Launch
  readonly environment: ServerEnvironment
}

export class Launcher {
  #target: StdioTarget
  #place: StdioPlace
  #pinned: { package: PinnedPackage; args: readonly string[] } | undefined

  constructor(target: StdioTarget, place: StdioPlace) {
    this.#target = target
    this.#place = place
    const npx = target.pin ? readNpx(target.command, target.args) : undefined
    if (npx !== undefined) {
      this.#pinned = { package: new PinnedPackage(npx, place.stateDir), args: npx.args }
    }
  }

  /** Rejects where the command, a secret or a pinned package cannot be had. */
  async prepare(): Promise<PreparedLaunch> {
    const { baseDir, keys } = this.#place
    const environment = await environmentOf(this.#target.env, process.env, (ref) => keys.read(ref))
    const { command, args } = await this.#program(environment)
    const cwd = resolve(baseDir, this.#target.cwd ?? '.')
    return { launch: { command, args, env: environment.variables, cwd }, environment }
  }

  async close(): Promise<void> {
    await this.#pinned?.package.close()
  }

  async #program({ variables }: ServerEnvironment): Promise<Pick<Launch, 'command' | 'args'>> {
    if (this.#pinned !== undefined) {
      return { command: await this.#pinned.package.program(), args: this.#pinned.args }
    }
    const { command, args } = this.#target
    const found = findCommand(command, this.#place.baseDir, variables['PATH'])
    if (found === undefined) throw new Error(`its command ${command} is not found`)
    return { command: found, args }
  }
}
