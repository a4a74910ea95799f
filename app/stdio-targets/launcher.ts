// Resolves a policy's command on this machine: the program, its environment and its directory.
import { resolve } from 'node:path'
import type { EffectivePolicy } from '@svc/core/policy'
import type { KeyReader } from '@svc/core/secret'
import { findCommand } from './command.js'
import type { StdioTarget } from './config.js'
import { argumentsOf, type EnvironmentSecret, environmentOf, type ServerEnvironment } from './environment.js'
import { readNpx } from './npx-command.js'
import { PinnedPackage } from './pinned-package.js'
import type { Launch } from './server-process.js'

/** The base of a policy's paths and references. */
export interface StdioPlace {
  readonly baseDir: string
  readonly stateDir: string
  readonly keys: KeyReader
  /** The values that replaced `${env:NAME}` in the policy. */
  readonly substituted: EffectivePolicy<unknown>['hostSecrets']
}

/** Shorter values, such as numbers and switches, occur in other texts too, and are not redacted. */
const minSecret = 4

export interface PreparedLaunch {
  readonly launch: Launch
  /** Values that must not be logged. */
  readonly secrets: readonly EnvironmentSecret[]
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

  /** Rejects if the command, a secret or a pinned package is not available. */
  async prepare(): Promise<PreparedLaunch> {
    const { baseDir, keys } = this.#place
    const environment = await environmentOf(this.#target.env, process.env, (ref) => keys.read(ref))
    const program = await this.#program(environment)
    const { args, secrets: given } = await argumentsOf(program.args, (ref) => keys.read(ref))
    const { command } = program
    const cwd = resolve(baseDir, this.#target.cwd ?? '.')
    const secrets = [...environment.secrets, ...given, ...this.#substituted()]
    return { launch: { command, args, env: environment.variables, cwd }, secrets }
  }

  async close(): Promise<void> {
    await this.#pinned?.package.close()
  }

  /** Values that the policy got from the environment and that occur in this command. */
  #substituted(): EnvironmentSecret[] {
    const { args, env } = this.#target
    const texts = [...args, ...Object.values(env)]
    return this.#place.substituted
      .filter(({ value }) => value.length >= minSecret && texts.some((text) => text.includes(value)))
      .map(({ value, reference }) => ({ name: reference, value }))
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
