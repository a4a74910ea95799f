// A plugin owns one section of the policy: its schema, its version, its stage.
import type { DependencyContainer } from 'tsyringe'
import type { z } from 'zod'
import type { Slot } from '../call/slot.js'
import type { Contradiction, PolicyFacts } from './facts.js'
import type { Resources } from './resources.js'
import type { Stage } from './stage.js'
import type { Token } from './tokens.js'

/** A figure that a stage counts or levels through `Meter`. */
export interface MetricEntry {
  /** A counter only rises, and its name ends in `_total`; a gauge is what is now so much. */
  readonly kind: 'counter' | 'gauge'
  /** What it means, for operators. */
  readonly help: string
}

/** What a plugin may know of the gateway it is created for. */
export interface PluginContext {
  readonly container: DependencyContainer
  readonly resources: Resources
  /** The tenant of unauthenticated calls and of records that no token attributes. */
  readonly tenant: string
  /** Upstream server name → base URL. */
  readonly targets: Readonly<Record<string, string>>
  /** The URL under which clients reach the gateway, without a slash at its end, where the policy says so. */
  readonly publicUrl?: string
  /** SHA-256, hex, of the policy in force; null where the gateway was configured in code alone. */
  readonly policySha256: string | null
  /** What other sections, and the host's part of the policy, say that concerns more than themselves. */
  readonly facts: PolicyFacts
  /** What another stage of the same pipeline offers outside calls; for `start` and later. */
  service?<T>(service: Token<T>): T | undefined
  /** Directory that relative paths in the policy start from. */
  readonly baseDir: string
  /** Where the gateway keeps its files; `audit.dir` defaults to `audit` below it. */
  readonly stateDir: string
  /** What `env:NAME` references read; the process's environment where it is absent. */
  readonly env?: Readonly<Record<string, string | undefined>>
  warn(message: string): void
}

export interface Plugin<Config = unknown> {
  /** The policy section it owns. */
  readonly name: string
  /** This plugin's own version (semver). */
  readonly version: string
  /** The range of `CORE_VERSION` it was written for (semver). */
  readonly core: string
  /** Strict: unknown keys are mistakes. Defaults inside. */
  readonly schema: z.ZodType<Config>
  /**
   * `required`: a policy without the section is refused. `always`: the stage runs on the schema's
   * defaults when the section is absent. `optional` (the default): no section, no stage.
   */
  readonly presence?: 'required' | 'always' | 'optional'
  /** Set while the section is a later release's: it is refused at load, never accepted and ignored. */
  readonly available?: false
  /** Slots some earlier stage must fill. */
  readonly requires?: readonly Slot<unknown>[]
  /** Slots read where some stage fills them; that stage must then be earlier. */
  readonly uses?: readonly Slot<unknown>[]
  /** Slots it alone fills. */
  readonly provides?: readonly Slot<unknown>[]
  /** Told when the policy leaves the section out; what it returns is a warning for the operator. */
  readonly absent?: string
  /**
   * The stage before which it stands when the policy has no `pipeline` and the default order does not name it;
   * absent: `runtime`, or `enforcement` where no runtime judges.
   */
  readonly before?: string
  /** What its stage counts and levels through `Meter`, by name; operators are shown it from the start. */
  readonly metrics?: Readonly<Record<string, MetricEntry>>
  /** What the section says that other plugins have to know. */
  facts?(config: Config): PolicyFacts
  /** What of the section does not go with the rest of the policy. Asked when every part is right by itself. */
  check?(config: Config, facts: PolicyFacts): readonly Contradiction[]
  /** Binds the defaults of its tokens with `bindDefault`; a binding of the user's wins. */
  register?(container: DependencyContainer): void
  create(config: Config, context: PluginContext): Stage
}

/** Gives a plugin its type: `config` in `create` is what `schema` parses to. */
export function definePlugin<Config>(plugin: Plugin<Config>): Plugin<Config> {
  return plugin
}
