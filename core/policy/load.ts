// Policy loading: parse, merge, judge every section, check versions and order; everything that is wrong at once.
import type { z } from 'zod'
import { contractName } from '../call/contract.js'
import type { PolicyFacts } from '../plugin/facts.js'
import type { OwnedToken, Plugin } from '../plugin/plugin.js'
import { inOrderOfText, mistakeAt, type Origin, warningAt } from './diagnostic.js'
import { policyDigest } from './digest.js'
import { withoutSecrets } from './environment.js'
import { type Judged, judge } from './judge.js'
import { mergeLayers, type Sections } from './layers.js'
import type { MapEntry, MapNode } from './node.js'
import { notAvailable } from './not-yet.js'
import { orderStages } from './order.js'
import { placeIn } from './place.js'
import { unknownKey } from './read.js'
import { keysOf } from './schema-kind.js'
import type { Diagnostic, PluginUse, PolicyInput, PolicyResult } from './types.js'
import { checkVersions, pluginFaults, readUses, secretsOf, type UseEntry } from './uses.js'

/**
 * One effective policy out of layers, or every mistake in them, in the order of the text. Never throws for
 * what a policy says; opens nothing and imports nothing.
 */
export function loadPolicy<Host>(input: PolicyInput<Host>): PolicyResult<Host> {
  return new Loading(input).result()
}

/** The entries of the policy's `plugins` that can be read, before anything is judged: what to import. */
export function pluginUses(input: Pick<PolicyInput<unknown>, 'layers' | 'env'>): PluginUse[] {
  const { entries } = mergeLayers(input.layers, ['plugins'])
  return readUses(entries.get('plugins')?.node, input.env).map(useOf)
}

function useOf({ use, version }: UseEntry): PluginUse {
  return version === undefined ? { use } : { use, version }
}

function isFault(imported: Plugin | Error): imported is Error {
  return imported instanceof Error
}

class Loading<Host> {
  readonly #input: PolicyInput<Host>
  readonly #plugins: ReadonlyMap<string, Plugin>
  readonly #hostKeys: readonly string[]
  readonly #sections: Sections
  readonly #uses: readonly UseEntry[]
  readonly #isPending: boolean
  readonly #mistakes: Diagnostic[] = []
  readonly #warnings: Diagnostic[] = []
  readonly #isBound: (token: symbol) => boolean

  constructor(input: PolicyInput<Host>) {
    this.#input = input
    this.#isBound = input.isBound ?? (() => false)
    const imported = [...(input.custom?.values() ?? [])].flatMap((made) => (isFault(made) ? [] : made))
    const all = [...input.plugins, ...imported]
    this.#plugins = new Map(all.map((plugin) => [plugin.name, plugin]))
    this.#hostKeys = keysOf(input.host)
    this.#sections = mergeLayers(
      input.layers,
      [...this.#hostKeys, ...this.#plugins.keys()],
      this.#plugins.values(),
    )
    this.#uses = readUses(this.#sections.entries.get('plugins')?.node, input.env)
    const isIncomplete = input.customPending === true || [...(input.custom?.values() ?? [])].some(isFault)
    this.#isPending = isIncomplete && this.#uses.some(({ use }) => this.#pluginOf(use) === undefined)
  }

  result(): PolicyResult<Host> {
    this.#mistakes.push(...this.#sections.mistakes)
    if (!this.#sections.isReadable) return this.#refused()
    const host = this.#judgeHost()
    this.#checkUnknownSections()
    this.#checkUses()
    const values = this.#judgeSections()
    const { plugins, mistakes } = orderStages({
      pipeline: this.#sections.entries.get('pipeline'),
      plugins: [...values.keys()].flatMap((name) => this.#plugins.get(name) ?? []),
      originOf: (section) => this.#sections.entries.get(section)?.origin ?? this.#sections.root,
      env: this.#input.env,
      isPending: this.#isPending,
    })
    this.#mistakes.push(...mistakes)
    for (const { name, owns = [] } of plugins) this.#mistakes.push(...this.#checkChoices(name, owns))
    if (this.#mistakes.length > 0 || host.value === undefined) return this.#refused()
    const facts = this.#factsOf(host.value, plugins, values)
    if (!this.#isPending) this.#checkTogether(plugins, values, facts)
    if (this.#mistakes.length > 0) return this.#refused()
    const policy = {
      host: host.value,
      uses: this.#uses.map(useOf),
      plugins,
      sections: values,
      facts,
      sha256: policyDigest(this.#input.layers),
      warnings: inOrderOfText(this.#warnings),
    }
    return { ok: true, policy }
  }

  #refused(): PolicyResult<Host> {
    return {
      ok: false,
      mistakes: inOrderOfText(this.#mistakes),
      warnings: inOrderOfText(this.#warnings),
    }
  }

  #factsOf(host: Host, plugins: readonly Plugin[], values: ReadonlyMap<string, unknown>): PolicyFacts {
    const said = plugins.map((plugin) => plugin.facts?.(values.get(plugin.name)))
    return Object.assign({}, this.#input.hostFacts?.(host), ...said)
  }

  #checkTogether(plugins: readonly Plugin[], values: ReadonlyMap<string, unknown>, facts: PolicyFacts): void {
    const { entries, root } = this.#sections
    for (const plugin of plugins) {
      const config = values.get(plugin.name)
      for (const { path, message, severity } of plugin.check?.(config, facts, this.#isBound) ?? []) {
        const place = placeIn(entries, root, path)
        if (severity === 'warning') this.#warnings.push(warningAt(place.origin, place.path, message))
        else this.#mistakes.push(mistakeAt(place.origin, place.path, message))
      }
    }
  }

  /** What code bound wins, so a policy that asks for another implementation would be ignored: that is a mistake. */
  #checkChoices(section: string, owns: readonly OwnedToken[]): Diagnostic[] {
    const { entries, root } = this.#sections
    return owns
      .filter(({ token }) => this.#isBound(token))
      .flatMap(({ token, chosenBy = [] }) =>
        chosenBy.flatMap((path) => {
          const found = placeIn(entries, root, [section, ...path])
          if (found.node === undefined) return []
          const message = `chooses an implementation, and code binds its own ${contractName(token)}; remove one of the two`
          return [mistakeAt(found.origin, found.path, message)]
        }),
      )
  }

  #pluginOf(use: string): Plugin | undefined {
    const imported = this.#input.custom?.get(use)
    return imported === undefined || isFault(imported) ? this.#plugins.get(use) : imported
  }

  #judgeHost(): Judged<Host> {
    const { entries, root } = this.#sections
    const members = this.#hostKeys.flatMap((key) => entries.get(key) ?? [])
    const node: MapNode = { kind: 'map', origin: root, entries: members }
    return this.#judge(node, this.#input.host, { origin: root, path: '' })
  }

  #judge<T>(
    node: MapEntry['node'],
    schema: z.ZodType<T>,
    place: { origin: Origin; path: string },
  ): Judged<T> {
    const judged = judge(node, schema, place, this.#input.env)
    this.#mistakes.push(...judged.mistakes)
    return judged
  }

  #checkUnknownSections(): void {
    const known = [...this.#hostKeys, ...this.#plugins.keys()]
    for (const [name, { key, origin }] of this.#sections.entries) {
      if (known.includes(name) || this.#isPending) continue
      this.#mistakes.push(
        mistakeAt(origin, key, unknownKey(key, known).replace(/^unknown key/, 'unknown section')),
      )
    }
  }

  #checkUses(): void {
    const secrets = secretsOf(this.#sections.entries.get('plugins')?.node, this.#input.env)
    const said: Diagnostic[] = checkVersions(this.#uses, (use) => this.#pluginOf(use))
    for (const plugin of this.#plugins.values()) {
      const entry = this.#uses.find(({ use }) => this.#pluginOf(use) === plugin)
      const section = this.#sections.entries.get(plugin.name)
      const origin = entry?.origin ?? section?.origin ?? this.#sections.root
      const path = entry?.path ?? section?.key ?? 'plugins'
      for (const fault of pluginFaults(plugin)) said.push(mistakeAt(origin, path, fault))
    }
    for (const entry of this.#uses) said.push(...this.#checkImported(entry))
    this.#mistakes.push(
      ...said.map((mistake) => ({ ...mistake, message: withoutSecrets(mistake.message, secrets) })),
    )
  }

  #checkImported({ use, path, origin }: UseEntry): Diagnostic[] {
    const plugin = this.#pluginOf(use)
    if (plugin === undefined) {
      const fault = this.#input.custom?.get(use)
      if (fault === undefined || !isFault(fault)) return []
      return [mistakeAt(origin, path, fault.message)]
    }
    if (this.#input.custom?.has(use) && this.#isUnused(plugin)) {
      const { name } = plugin
      const message = `plugin "${name}" is loaded, but the policy has no section "${name}": its stage does not run`
      this.#warnings.push(warningAt(origin, path, message))
    }
    return []
  }

  #isUnused(plugin: Plugin): boolean {
    return (plugin.presence ?? 'optional') === 'optional' && !this.#sections.entries.has(plugin.name)
  }

  /** Every section whose stage runs; the value is undefined where it has mistakes. */
  #judgeSections(): Map<string, unknown> {
    const values = new Map<string, unknown>()
    for (const plugin of this.#plugins.values()) {
      const entry = this.#sections.entries.get(plugin.name)
      if (entry === undefined) {
        this.#judgeAbsent(plugin, values)
      } else if (plugin.available === false) {
        this.#mistakes.push(mistakeAt(entry.origin, entry.key, notAvailable(`the section "${plugin.name}"`)))
      } else {
        const place = { origin: entry.origin, path: entry.key }
        values.set(plugin.name, this.#judge(entry.node, plugin.schema, place).value)
      }
    }
    return values
  }

  #judgeAbsent(plugin: Plugin, values: Map<string, unknown>): void {
    const { name, presence } = plugin
    const { root } = this.#sections
    if (plugin.available === false) return
    if (plugin.absent !== undefined) this.#warnings.push(warningAt(root, name, plugin.absent))
    if (presence === 'required') {
      this.#mistakes.push(mistakeAt(root, name, `the section "${name}" is missing; every policy needs it`))
      values.set(name, undefined)
    } else if (presence === 'always') {
      const nothing: MapNode = { kind: 'map', origin: root, entries: [] }
      values.set(name, this.#judge(nothing, plugin.schema, { origin: root, path: name }).value)
    }
  }
}
