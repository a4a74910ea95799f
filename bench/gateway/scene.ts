// The environment of an HTTP benchmark: issuer, upstream, load generator and policy.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { Child } from '../measure/child.js'
import { canPin } from '../measure/machine.js'
import { type Issuer, startIssuer } from './issuer.js'
import { policyOf } from './policy.js'

const USERS = 8
const SUBJECT_CORE = 0
const OTHER_CORE = 1

export class Scene {
  readonly pinned: boolean
  readonly dir: string
  readonly policyFile: string
  readonly keyFile: string
  readonly tokens: readonly string[]
  readonly load: Child
  readonly #issuer: Issuer
  readonly #upstream: Child
  readonly #subjects: Child[] = []

  private constructor(parts: { pinned: boolean; dir: string; issuer: Issuer; upstream: Child; load: Child }) {
    this.pinned = parts.pinned
    this.dir = parts.dir
    this.policyFile = join(parts.dir, 'policy.json')
    this.keyFile = join(parts.dir, 'key')
    this.tokens = parts.issuer.tokens
    this.load = parts.load
    this.#issuer = parts.issuer
    this.#upstream = parts.upstream
  }

  /** Uses a new directory below `disk`; `sections` replace those of the policy. */
  static async set(disk: string, sections: Record<string, unknown> = {}): Promise<Scene> {
    const dir = await mkdtemp(join(disk, 'svc-bench-'))
    const pinned = canPin()
    const core = pinned ? OTHER_CORE : undefined
    const issuer = await startIssuer(USERS)
    const upstream = await Child.start('gateway/upstream', { core })
    const load = await Child.start('gateway/load', { core })
    const scene = new Scene({ pinned, dir, issuer, upstream, load })
    await generateKeyFile(scene.keyFile)
    const policy = policyOf({
      issuer: issuer.url,
      upstreamPort: upstream.port,
      dir: join(dir, 'audit'),
      keyFile: scene.keyFile,
    })
    // JSON is YAML.
    await writeFile(scene.policyFile, JSON.stringify({ ...policy, ...sections }, null, 2))
    return scene
  }

  /** Starts the measured process, alone on its core. */
  async subject(module: 'relay' | 'gateway', execArgv: readonly string[] = []): Promise<Child> {
    return this.#start(module, module === 'relay' ? String(this.#upstream.port) : this.policyFile, execArgv)
  }

  /** The relay without its upstream half. */
  async echo(): Promise<Child> {
    return this.#start('relay', undefined, [])
  }

  async end(): Promise<void> {
    for (const child of [this.load, ...this.#subjects, this.#upstream]) await child.stop()
    this.#issuer.close()
    await rm(this.dir, { recursive: true })
  }

  async #start(module: string, arg: string | undefined, execArgv: readonly string[]): Promise<Child> {
    const core = this.pinned ? SUBJECT_CORE : undefined
    const child = await Child.start(`gateway/${module}`, {
      core,
      execArgv,
      args: arg === undefined ? [] : [arg],
    })
    this.#subjects.push(child)
    return child
  }
}
