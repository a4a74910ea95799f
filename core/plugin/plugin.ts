// A plugin owns one section of the policy: its schema, its version, its stage.
import type { DependencyContainer } from 'tsyringe'
import type { z } from 'zod'
import type { Slot } from '../call/slot.js'
import type { Contradiction, PolicyFacts } from './facts.js'
import type { Phase } from './order.js'
import type { Resources } from './resources.js'
import type { Stage } from './stage.js'
import type { Token } from './tokens.js'

/** A metric that a stage counts or sets through `Meter`. */
export interface MetricEntry {
  /** A counter only rises, and its name ends in `_total`; a gauge is a current value. */
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

/** A token whose default a plugin binds. */
export interface OwnedToken {
  readonly token: Token<unknown>
  /** A key of the section that holds an implementation where code passes the section: it counts as a binding. */
  readonly given?: { readonly key: string; readonly bind: (value: unknown) => unknown }
  /**
   * Keys by which a policy chooses an implementation, from the section down in the schema's spelling, such as
   * `['remote', 'endpoint']`: together with a binding made in code, they are a mistake.
   */
  readonly chosenBy?: readonly (readonly string[])[]
}

/** What `svc doctor` says of one thing that only opening can tell. */
export interface DoctorCheck {
  readonly severity: 'ok' | 'warning' | 'error'
  readonly message: string
  /** What to do about it. */
  readonly hint?: string
}

/** A panel of the console: rows that the stage answers when they are asked for. */
export interface ConsolePanel {
  readonly title: string
  rows(): Promise<readonly Readonly<Record<string, string | number>>[]>
}

export type Presence = 'required' | 'always' | 'optional'

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
  readonly presence?: Presence
  /** Set while the section is a later release's: it is refused at load, never accepted and ignored. */
  readonly available?: false
  /** Where it stands when the policy has no `pipeline`; `inspection` where it is absent. */
  readonly phase?: Phase
  /** The stage of another section before which it stands, where that one runs. */
  readonly before?: string
  /** A section inside which this one may be written as well: `security` for `security.ap2`. */
  readonly nestedIn?: string
  /** Slots some earlier stage must fill. */
  readonly requires?: readonly Slot<unknown>[]
  /** Slots read where some stage fills them; that stage must then be earlier. */
  readonly uses?: readonly Slot<unknown>[]
  /** Slots it alone fills. */
  readonly provides?: readonly Slot<unknown>[]
  /** A warning for the operator when the policy leaves the section out. */
  readonly absent?: string
  /** What its stage counts and sets through `Meter`, by name; `/metrics` shows them from the start. */
  readonly metrics?: Readonly<Record<string, MetricEntry>>
  /** The tokens whose defaults `register` binds; the container of the gateway resolves the running ones. */
  readonly owns?: readonly OwnedToken[]
  /** What the section says that other plugins have to know. */
  facts?(config: Config): PolicyFacts
  /** What of the section does not agree with the rest of the policy, or with what code bound. Asked when every part is right by itself. */
  check?(
    config: Config,
    facts: PolicyFacts,
    isBound: (token: Token<unknown>) => boolean,
  ): readonly Contradiction[]
  /**
   * Binds the defaults of its tokens with `bindDefault` in the context's container, which belongs to the policy in
   * force; what the user bound wins. Every running plugin registers before any stage is created.
   */
  register?(config: Config, context: PluginContext): void
  create(config: Config, context: PluginContext): Stage
  /** For `svc doctor`: opens what the section names, checks it, and closes it again. */
  doctor?(config: Config, context: PluginContext): Promise<readonly DoctorCheck[]>
  /** For the console: what the running stage shows. */
  panel?(stage: Stage): ConsolePanel | undefined
}

/**
 * Gives a plugin its type: `config` in `create` is what `schema` parses to, and the type of a policy in code is
 * inferred from the name, the schema and the presence (`SectionsOf`).
 */
export function definePlugin<
  const Name extends string,
  Schema extends z.ZodType,
  const Sort extends Presence = 'optional',
>(
  plugin: Plugin<z.output<Schema>> & {
    readonly name: Name
    readonly schema: Schema
    readonly presence?: Sort
  },
): Plugin<z.output<Schema>> & { readonly name: Name; readonly schema: Schema; readonly presence?: Sort } {
  return plugin
}

interface Named {
  readonly name: string
  readonly schema: z.ZodType
  readonly presence?: Presence
}

type RequiredOf<Plugins extends readonly Named[]> = Plugins[number] extends infer P
  ? P extends Named
    ? 'required' extends P['presence']
      ? P
      : never
    : never
  : never

/** The sections of a list of plugins as code writes them: what the schemas take, by section name. */
export type SectionsOf<Plugins extends readonly Named[]> = {
  [P in RequiredOf<Plugins> as P['name']]: z.input<P['schema']>
} & {
  [P in Exclude<Plugins[number], RequiredOf<Plugins>> as P['name']]?: z.input<P['schema']>
}
