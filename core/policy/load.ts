// Loads a policy: parses, merges, validates every section, checks versions and order, and reports all mistakes at once.
import type { DependencyContainer } from 'tsyringe'
import type { z } from 'zod'
import { contractName } from '../call/contract.js'
import { canonicalize } from '../json/canonical.js'
import { sha256Hex } from '../json/hash.js'
import { bindOwned, type ConfigConflict, type OwnedToken, type Plugin } from '../plugin/plugin.js'
import { policyTokens } from '../plugin/policy-tokens.js'
import { bindDefault, resolveOptional } from '../plugin/tokens.js'
import { mistakeAt, noteAt, sortedByPosition, warningAt } from './diagnostic.js'
import { withoutSecrets } from './environment.js'
import { Sections } from './layers.js'
import { type MapNode, type PolicyNode, secretsOf } from './node.js'
import { orderStages } from './order-stages.js'
import { checkVersions, pluginErrors, readUses, type UseEntry } from './plugin-uses.js'
import { type Position, unknownKey } from './read.js'
import { keysOf } from './schema-kind.js'
import type {
  Diagnostic,
  HostResult,
  PluginUse,
  PolicyInput,
  PolicyLayer,
  PolicyResult,
  RefusedPolicy,
} from './types.js'
import { type Validated, validate } from './validate.js'
import { patternsOf, serversOfPatterns } from './written-patterns.js'

/**
 * One effective policy, or all mistakes of its layers, sorted by position. Never throws for the content of a policy;
 * opens and imports nothing.
 */
export function loadPolicy<Host>(input: PolicyInput<Host>): PolicyResult<Host> {
  return new PolicyLoader(input).result()
}

/**
 * The host's part of a policy whose modules are not imported yet, or its mistakes. A module may own any section, so
 * that no section is judged here; one that every policy needs must be present.
 */
export function loadHost<Host>(input: PolicyInput<Host>): HostResult<Host> {
  return new PolicyLoader(input).host()
}

/** The readable entries of the policy's `plugins`, before validation: the modules to import. */
export function pluginUses(input: Pick<PolicyInput<unknown>, 'layers' | 'env'>): PluginUse[] {
  const plugins = new Sections(input.layers, ['plugins']).locate(['plugins'])
  return readUses(plugins, input.env).map(useOf)
}

function useOf({ use, version }: UseEntry): PluginUse {
  return version === undefined ? { use } : { use, version }
}

function isError(imported: Plugin | Error): imported is Error {
  return imported instanceof Error
}

class PolicyLoader<Host> {
  readonly #input: PolicyInput<Host>
  readonly #plugins: ReadonlyMap<string, Plugin>
  readonly #hostKeys: readonly string[]
  readonly #sections: Sections
  readonly #uses: readonly UseEntry[]
  readonly #mistakes: Diagnostic[] = []
  readonly #warnings: Diagnostic[] = []
  readonly #notes: Diagnostic[] = []

  constructor(input: PolicyInput<Host>) {
    this.#input = input
    const imported = [...(input.custom?.values() ?? [])].flatMap((result) => (isError(result) ? [] : result))
    const all = [...input.plugins, ...imported]
    this.#plugins = new Map(all.map((plugin) => [plugin.name, plugin]))
    this.#hostKeys = keysOf(input.host)
    this.#sections = new Sections(input.layers, [...this.#hostKeys, ...this.#plugins.keys()], input.nested)
    this.#uses = readUses(this.#sections.locate(['plugins']), input.env)
  }

  result(): PolicyResult<Host> {
    this.#mistakes.push(...this.#sections.mistakes)
    if (!this.#sections.isReadable) return this.#refused()
    const host = this.#validateHost()
    this.#checkUses()
    this.#checkRequired()
    // A module that cannot be imported may own any section, so sections are judged only with every module.
    if ([...(this.#input.custom?.values() ?? [])].some(isError)) return this.#refused()
    this.#checkUnknownSections()
    const values = this.#validateSections()
    const { plugins, mistakes } = orderStages({
      sections: this.#sections,
      plugins: [...values.keys()].flatMap((name) => this.#plugins.get(name) ?? []),
      env: this.#input.env,
    })
    this.#mistakes.push(...mistakes)
    for (const { name, owns = [] } of plugins) this.#mistakes.push(...this.#checkChoices(name, owns))
    if (this.#mistakes.length > 0 || host.value === undefined) return this.#refused()
    const container = this.#containerOf(host.value, plugins, values)
    this.#report(this.#input.checkHost?.(host.value) ?? [])
    for (const plugin of plugins) {
      this.#report(plugin.check?.(values.get(plugin.name), container) ?? [])
    }
    const known = resolveOptional(container, policyTokens.host)
    if (known !== undefined) this.#report(serversOfPatterns(patternsOf({ plugins, sections: values }), known))
    if (this.#mistakes.length > 0) return this.#refused()
    const text = policyTextOf(this.#input.layers)
    const policy = {
      host: host.value,
      uses: this.#uses.map(useOf),
      plugins,
      modules: this.#modules(),
      sections: values,
      container,
      sha256: text === undefined ? null : sha256Hex(text),
      texts: text === undefined ? [] : [text],
      warnings: sortedByPosition(this.#warnings),
      notes: sortedByPosition(this.#notes),
      hostSecrets: secretsOf(this.#hostNode(), this.#input.env),
    }
    return { ok: true, policy }
  }

  host(): HostResult<Host> {
    this.#mistakes.push(...this.#sections.mistakes)
    if (!this.#sections.isReadable) return this.#refused()
    const { value: host } = this.#validateHost()
    this.#checkRequired()
    if (this.#mistakes.length > 0 || host === undefined) return this.#refused()
    return { ok: true, host }
  }

  #refused(): RefusedPolicy {
    return {
      ok: false,
      mistakes: sortedByPosition(this.#mistakes),
      warnings: sortedByPosition(this.#warnings),
    }
  }

  /** Has all bindings before the first `check`, so that checks do not depend on the order of plugins. */
  #containerOf(host: Host, plugins: readonly Plugin[], values: ReadonlyMap<string, unknown>) {
    const container: DependencyContainer = this.#input.bindings.createChildContainer()
    // Plugins without a section count too: a policy may name a reason before it has the section.
    const reasons = [...this.#plugins.values()].flatMap((plugin) => plugin.reasons ?? [])
    bindDefault(container, policyTokens.reasons, { useValue: reasons })
    const known = this.#input.policyHost?.(host)
    if (known !== undefined) bindDefault(container, policyTokens.host, { useValue: known })
    for (const plugin of plugins) bindOwned(container, plugin, values.get(plugin.name))
    return container
  }

  #report(found: readonly ConfigConflict[]): void {
    for (const { path, message, severity, offset } of found) {
      const { origin: start, path: written, node } = this.#sections.locate(path)
      const place = offset === undefined || node?.kind !== 'scalar' ? undefined : node.placeOf?.(offset)
      const origin = place?.origin ?? start
      if (severity === 'warning') this.#warnings.push(warningAt(origin, written, message))
      else if (severity === 'note') this.#notes.push(noteAt(origin, written, message))
      else {
        const excerpt = place === undefined ? {} : { excerpt: place.excerpt }
        this.#mistakes.push({ ...mistakeAt(origin, written, message), ...excerpt })
      }
    }
  }

  /** Code takes precedence, so a policy that chooses another implementation would be ignored: that is a mistake. */
  #checkChoices(section: string, owns: readonly OwnedToken[]): Diagnostic[] {
    return owns
      .filter(({ token }) => this.#input.bindings.isRegistered(token, true))
      .flatMap(({ token, selectedBy = [] }) =>
        selectedBy.flatMap((path) => {
          const found = this.#sections.locate([section, ...path])
          if (found.node === undefined) return []
          const message = `chooses an implementation, and code binds its own ${contractName(token)}; remove one of the two`
          return [mistakeAt(found.origin, found.path, message)]
        }),
      )
  }

  #pluginOf(use: string): Plugin | undefined {
    const imported = this.#input.custom?.get(use)
    return imported === undefined || isError(imported) ? this.#plugins.get(use) : imported
  }

  #modules(): Map<string, string> {
    const modules = new Map<string, string>()
    for (const [use, imported] of this.#input.custom ?? []) {
      if (!isError(imported)) modules.set(imported.name, use)
    }
    return modules
  }

  #hostNode(): MapNode {
    const { entries, root } = this.#sections
    return { kind: 'map', origin: root, entries: this.#hostKeys.flatMap((key) => entries.get(key) ?? []) }
  }

  #validateHost(): Validated<Host> {
    return this.#validate(this.#hostNode(), this.#input.host, { origin: this.#sections.root, path: '' })
  }

  #validate<T>(node: PolicyNode, schema: z.ZodType<T>, position: Position): Validated<T> {
    const validated = validate(node, schema, position, this.#input.env)
    this.#mistakes.push(...validated.mistakes)
    return validated
  }

  #checkUnknownSections(): void {
    const known = [...this.#hostKeys, ...this.#plugins.keys()]
    for (const [name, { key, origin }] of this.#sections.entries) {
      if (known.includes(name)) continue
      this.#mistakes.push(
        mistakeAt(origin, key, unknownKey(key, known).replace(/^unknown key/, 'unknown section')),
      )
    }
  }

  #checkUses(): void {
    const secrets = secretsOf(this.#sections.locate(['plugins']).node, this.#input.env)
    const mistakes: Diagnostic[] = checkVersions(this.#uses, (use) => this.#pluginOf(use))
    for (const plugin of this.#plugins.values()) {
      const entry = this.#uses.find(({ use }) => this.#pluginOf(use) === plugin)
      const section = this.#sections.locate([plugin.name])
      const { origin } = entry ?? section
      const path = entry?.path ?? (section.node === undefined ? 'plugins' : section.path)
      for (const error of pluginErrors(plugin)) mistakes.push(mistakeAt(origin, path, error))
    }
    for (const entry of this.#uses) mistakes.push(...this.#checkImported(entry))
    this.#mistakes.push(
      ...mistakes.map((mistake) => ({ ...mistake, message: withoutSecrets(mistake.message, secrets) })),
    )
  }

  #checkImported({ use, path, origin }: UseEntry): Diagnostic[] {
    const plugin = this.#pluginOf(use)
    if (plugin === undefined) {
      const error = this.#input.custom?.get(use)
      if (error === undefined || !isError(error)) return []
      return [mistakeAt(origin, path, error.message)]
    }
    if (this.#input.custom?.has(use) && this.#isUnused(plugin)) {
      const { name } = plugin
      const message = `plugin "${name}" is loaded, but the policy has no section "${name}": its stage does not run`
      this.#warnings.push(warningAt(origin, path, message))
    }
    return []
  }

  #isUnused(plugin: Plugin): boolean {
    return !this.#sections.entries.has(plugin.name) && !plugin.schema.safeParse(undefined).success
  }

  /** The sections of all stages that run; the value is undefined if it has mistakes. */
  #validateSections(): Map<string, unknown> {
    const values = new Map<string, unknown>()
    for (const plugin of this.#plugins.values()) {
      const entry = this.#sections.entries.get(plugin.name)
      if (entry !== undefined) {
        const position = { origin: entry.origin, path: entry.key }
        values.set(plugin.name, this.#validate(entry.node, plugin.schema, position).value)
        continue
      }
      const absent = plugin.schema.safeParse(undefined)
      if (absent.success) values.set(plugin.name, absent.data)
      // Its absence is a mistake of its own, and the order is checked with it.
      else if (this.#input.required?.includes(plugin.name)) values.set(plugin.name, undefined)
    }
    return values
  }

  /** A section stays required if its plugin is replaced. */
  #checkRequired(): void {
    const { root, entries } = this.#sections
    for (const name of this.#input.required ?? []) {
      if (entries.has(name)) continue
      this.#mistakes.push(mistakeAt(root, name, `the section "${name}" is missing; every policy needs it`))
    }
  }
}

/**
 * The text of the policy, whose hash each record contains. It is that of the last layer other than `options`: of an object its canonical JSON (RFC 8785)
 * without functions and instances. Undefined without a policy.
 */
function policyTextOf(layers: readonly PolicyLayer[]): string | undefined {
  const policy = layers.findLast((layer) => layer.file !== 'options')
  if (policy === undefined) return undefined
  return 'text' in policy ? policy.text : canonicalize(asJson(policy.object, new Set()))
}

function asJson(value: unknown, within: Set<object>): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value !== 'object' || within.has(value)) return undefined
  within.add(value)
  try {
    if (Array.isArray(value)) return value.map((item: unknown) => asJson(item, within) ?? null)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== null && prototype !== Object.prototype) return undefined
    const members = Object.entries(value).map(([key, member]) => [key, asJson(member, within)] as const)
    return Object.fromEntries(members.filter(([, member]) => member !== undefined))
  } finally {
    within.delete(value)
  }
}
