// A plugin owns one section of the policy: its schema, version and stage.
import type { DependencyContainer } from 'tsyringe'
import type { z } from 'zod'
import type { Slot } from '../call/slot.js'
import type { Phase } from './phase.js'
import type { Resources } from './resources.js'
import type { Stage } from './stage.js'
import { bindDefault, type Token, token } from './tokens.js'

/** A program that prints a secret to its standard output. */
export interface SecretCommand {
  /** The program, by path or found in PATH. No shell reads it or its arguments. */
  readonly command: string
  readonly args: readonly string[]
  /** Time after which the program is killed, in milliseconds. */
  readonly timeout_ms: number
  /** Time for which its secret is used before it runs again, in milliseconds. */
  readonly cache_ms: number
}

/** The facts that a plugin knows about its gateway and the policy. */
export interface PluginContext {
  readonly container: DependencyContainer
  readonly resources: Resources
  /** The tenant of unauthenticated calls, and of records without a token's tenant. */
  readonly tenant: string
  /** Upstream server name → base URL. */
  readonly targets: Readonly<Record<string, string>>
  /** Group name → the targets that /mcp/<group> serves. */
  readonly groups?: Readonly<Record<string, readonly string[]>>
  /** The URL under which clients reach the gateway, without a trailing slash, if the policy has it. */
  readonly publicUrl?: string
  /** SHA-256, hex, of the policy; null if the gateway is configured in code only. */
  readonly policySha256: string | null
  /** The texts that the hash stands for: it is that of the last one, which contains the hash of the one before it. */
  readonly policyTexts?: readonly string[]
  /** Base directory of relative paths in the policy. */
  readonly baseDir: string
  /** The directory of the gateway's files; `audit.dir` defaults to `audit` below it. */
  readonly stateDir: string
  /** The environment for `env:NAME` references; default: that of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** The programs of `command:NAME` references by name. */
  readonly secrets?: Readonly<Record<string, SecretCommand>>
  warn(message: string): void
}

/** A token whose default a plugin binds, in one of two ways. A binding in code takes precedence. */
export interface OwnedToken<Config = unknown> {
  readonly token: Token<unknown>
  /**
   * The default, if it follows from the section and what the host states. It is bound before any `check`; undefined binds
   * nothing. See `owned`.
   */
  value?(config: Config, bindings: DependencyContainer): unknown
  /**
   * Binds the default, with `bindDefault`, and what only this plugin resolves, in the context's container, of which each
   * policy has its own. The owned tokens of every running plugin are bound before any stage is created.
   */
  bind?(config: Config, context: PluginContext): void
  /** A key of the section that holds an implementation if code passes the section: it counts as a binding. */
  readonly fromOption?: { readonly key: string; readonly bind: (value: unknown) => unknown }
  /**
   * Keys by which a policy selects an implementation, from the section down in the schema's spelling, such as
   * `['remote', 'endpoint']`: together with a binding made in code, they are a mistake.
   */
  readonly selectedBy?: readonly (readonly string[])[]
}

/** A token whose value follows from the section of its plugin, and what the host states. */
export function owned<T, Config>(
  token: Token<T>,
  value: (config: Config, bindings: DependencyContainer) => T | undefined,
): OwnedToken<Config> {
  return { token, value }
}

/** Binds what a plugin knows from its section alone. A binding in code takes precedence. */
export function bindOwned(container: DependencyContainer, { owns = [] }: Plugin, config: unknown): void {
  for (const { token, value } of owns) {
    const known = value?.(config, container)
    if (known !== undefined) bindDefault(container, token, { useValue: known })
  }
}

/** Binds what a plugin binds for one pipeline, with the bindings of its section in place. */
export function bindForPipeline({ owns = [] }: Plugin, config: unknown, context: PluginContext): void {
  for (const owned of owns) owned.bind?.(config, context)
}

/** Sections of a policy that are valid by themselves and not together. */
export interface ConfigConflict {
  /** From the policy's root, beginning with the section, in the schemas' spelling. */
  readonly path: readonly (string | number)[]
  /** The mistake, and the accepted values. */
  readonly message: string
  /** The index of the character within the text at the path. */
  readonly offset?: number
  /** Default: a mistake. A note is for `svc policy check` alone. */
  readonly severity?: 'warning' | 'note'
}

/** The interface of a plugin. The first five members are needed. */
interface PluginIdentity<Config = unknown> {
  /** The policy section it owns. */
  readonly name: string
  /** This plugin's own version (semver). */
  readonly version: string
  /** The range of `CORE_VERSION` that it supports (semver). */
  readonly core: string
  /**
   * A strict schema, which refuses unknown keys, with the defaults. If it accepts `undefined`, the stage runs without the
   * section too, on what the schema makes of `undefined`; otherwise no section, no stage.
   */
  readonly schema: z.ZodType<Config>
  /** Creates the stage; opens nothing. */
  create(config: Config, context: PluginContext): Stage
  /** The position in the default order, after the built-in stages of the same phase; default: `inspection`. */
  readonly phase?: Phase
  /** Reason tokens of its stage's findings, if they are not core's: a policy's `deny_on` may name them. */
  readonly reasons?: readonly string[]
}

/** How a plugin is connected with others. */
interface PluginWiring<Config = unknown> {
  /** Slots that its stage reads: the stage that sets one must be earlier. */
  readonly uses?: readonly Slot<unknown>[]
  /** Slots that only its stage sets, before it calls `next`. Some may stay empty. */
  readonly provides?: readonly Slot<unknown>[]
  /** Tokens that it binds; the gateway's container resolves them to the running objects. */
  readonly owns?: readonly OwnedToken<Config>[]
  /**
   * Conflicts with other sections or with bindings in code, and key files that cannot be read. Called when every
   * section is valid by itself. `bindings` has what code bound, and what the sections and the host state (`policyTokens`).
   */
  check?(config: Config, bindings: DependencyContainer): readonly ConfigConflict[]
}

export interface Plugin<Config = unknown> extends PluginIdentity<Config>, PluginWiring<Config> {}

/** Infers the type of a plugin: `config` is the output of `schema`; name and schema give the type of its section in `SectionsOf`. */
export function definePlugin<const Name extends string, Schema extends z.ZodType>(
  plugin: Plugin<z.output<Schema>> & { readonly name: Name; readonly schema: Schema },
): Plugin<z.output<Schema>> & { readonly name: Name; readonly schema: Schema } {
  return plugin
}

/** The type of the sections of a list of plugins: the inputs of their schemas by section name. */
export type SectionsOf<Plugins extends readonly Pick<Plugin, 'name' | 'schema'>[]> = {
  [P in Plugins[number] as P['name']]?: z.input<P['schema']>
}

/** The built-in plugins are the default registration. */
const plugins = token<Plugin>('Plugin')

/** Registers a plugin. Of two with the same section the later counts, so that a user's plugin replaces a built-in one. */
export function registerPlugin(container: DependencyContainer, plugin: Plugin): void {
  container.register<Plugin>(plugins, { useValue: plugin })
}

/** All registered plugins, in the order of registration. */
export function registeredPlugins(container: DependencyContainer): Plugin[] {
  return container.isRegistered(plugins, true) ? container.resolveAll<Plugin>(plugins) : []
}
