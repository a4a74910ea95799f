// The environment of an HTTP benchmark: issuer, upstream, load generator and policy.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { Child } from '../measure/child.js'
import { canPin } from '../measure/machine.js'
import { type Issuer, startIssuer } from './issuer.js'
import { policyOf } from './policy.js'

const USERS = 8
export const SUBJECT_CORE = '0'
export const OTHER_CORE = '1'
/** If there is no third core, upstream and load share the second one with the subject. */
export const SUBJECT_CORES = availableParallelism() > 2 ? '0,2' : '0,1'

interface SceneParts {
  readonly pinned: boolean
  readonly dir: string
  readonly issuer: Issuer
  readonly upstream: Child
  readonly load: Child
  /** Sections that replace those of the policy. */
  readonly sections: Readonly<Record<string, unknown>>
}

export interface SubjectOptions {
  readonly execArgv?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Default: 1. */
  readonly cores?: 1 | 2
}

export class Scene {
  readonly pinned: boolean
  readonly tokens: readonly string[]
  readonly load: Child
  readonly #parts: SceneParts
  readonly #subjects: Child[] = []

  private constructor(parts: SceneParts) {
    this.pinned = parts.pinned
    this.tokens = parts.issuer.tokens
    this.load = parts.load
    this.#parts = parts
  }

  /** Uses a new directory below `disk`; `sections` replace those of the policy, of `audit` only the given keys. */
  static async set(disk: string, sections: Readonly<Record<string, unknown>> = {}): Promise<Scene> {
    const dir = await mkdtemp(join(disk, 'svc-bench-'))
    const pinned = canPin()
    const cores = pinned ? OTHER_CORE : undefined
    const issuer = await startIssuer(USERS)
    const upstream = await Child.start('gateway/upstream', { cores })
    const load = await Child.start('gateway/load', { cores })
    return new Scene({ pinned, dir, issuer, upstream, load, sections })
  }

  /** Starts the measured process, alone on its cores. */
  async subject(module: 'relay' | 'gateway', options: SubjectOptions = {}): Promise<Child> {
    const { port } = this.#parts.upstream
    return this.#start(module, module === 'relay' ? String(port) : await this.policyFile(), options)
  }

  /** `svc gateway` with this number of workers, on the cores that it may have. */
  async workers(count: string): Promise<Child> {
    const args = [await this.policyFile(), count]
    const child = await Child.start('gateway/workers', {
      cores: this.pinned ? SUBJECT_CORES : undefined,
      args,
    })
    this.#subjects.push(child)
    return child
  }

  /** The relay without its upstream half. */
  async echo(): Promise<Child> {
    return this.#start('relay', undefined, {})
  }

  /** The cores of the processes. */
  placement(): string {
    if (!this.pinned) return 'not pinned'
    const alone = `relay and gateway take turns on core ${SUBJECT_CORE}; upstream and load on core ${OTHER_CORE}`
    return `${alone}; with two cores, the gateway on cores ${SUBJECT_CORES.replace(',', ' and ')}`
  }

  /** A new file with the policy, with a log and a key of its own. */
  async policyFile(): Promise<string> {
    const { dir, issuer, upstream, sections } = this.#parts
    const own = await mkdtemp(join(dir, 'gateway-'))
    const keyFile = join(own, 'key')
    await generateKeyFile(keyFile)
    const policy = policyOf({
      issuer: issuer.url,
      upstreamPort: upstream.port,
      dir: join(own, 'audit'),
      keyFile,
    })
    const file = join(own, 'policy.json')
    // JSON is YAML.
    const audit = Object.assign({}, policy['audit'], sections['audit'])
    await writeFile(file, JSON.stringify({ ...policy, ...sections, audit }, null, 2))
    return file
  }

  async end(): Promise<void> {
    const { dir, upstream, issuer } = this.#parts
    for (const child of [this.load, ...this.#subjects, upstream]) await child.stop()
    issuer.close()
    await rm(dir, { recursive: true })
  }

  async #start(module: string, arg: string | undefined, options: SubjectOptions): Promise<Child> {
    const { execArgv = [], env = {}, cores = 1 } = options
    const pinned = cores === 1 ? SUBJECT_CORE : SUBJECT_CORES
    const child = await Child.start(`gateway/${module}`, {
      cores: this.pinned ? pinned : undefined,
      execArgv,
      env,
      args: arg === undefined ? [] : [arg],
    })
    this.#subjects.push(child)
    return child
  }
}
