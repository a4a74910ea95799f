// Resolves a policy's command on this machine: the program, its environment and its directory.
import { resolve } from 'node:path'
import type { EffectivePolicy } from '@svc/core/policy'
import type { KeyReader } from '@svc/core/secret'
import type { StdioTarget } from './config.js'
import { argumentsOf, type EnvironmentSecret, environmentOf, findCommand, withHome } from './environment.js'
import type { Launch } from './server-process.js'

/** The base of a policy's paths and references. */
export interface StdioPlace {
  readonly baseDir: string
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

  constructor(target: StdioTarget, place: StdioPlace) {
    this.#target = target
    this.#place = place
  }

  /** Rejects if the command or a secret is not available. */
  async prepare(): Promise<PreparedLaunch> {
    const { baseDir, keys } = this.#place
    const { variables, secrets: ofVariables } = await environmentOf(this.#target.env, process.env, (ref) =>
      keys.read(ref),
    )
    const { PATH, HOME } = variables
    const command = findCommand(withHome(this.#target.command, HOME), baseDir, PATH)
    if (command === undefined) throw new Error(`its command ${this.#target.command} is not found`)
    const { args, secrets: ofArguments } = await argumentsOf(
      this.#target.args.map((arg) => withHome(arg, HOME)),
      (ref) => keys.read(ref),
    )
    const cwd = resolve(baseDir, withHome(this.#target.cwd ?? '.', HOME))
    const secrets = [...ofVariables, ...ofArguments, ...this.#substituted()]
    return { launch: { command, args, env: variables, cwd }, secrets }
  }

  /** Values that the policy got from the environment and that occur in this command. */
  #substituted(): EnvironmentSecret[] {
    const { args, env } = this.#target
    const texts = [...args, ...Object.values(env)]
    return this.#place.substituted
      .filter(({ value }) => value.length >= minSecret && texts.some((text) => text.includes(value)))
      .map(({ value, reference }) => ({ name: reference, value }))
  }
}
