// From layers to one set of sections: a later layer's section replaces an earlier one's, whole.
import type { Plugin } from '../plugin/plugin.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { type MapEntry, type MapNode, nodeOf, type PolicyNode } from './node.js'
import { bothSpellings } from './read.js'
import { knownKey } from './spelling.js'
import type { Diagnostic, PolicyLayer } from './types.js'
import { parsePolicyText } from './yaml.js'

export interface Sections {
  /** By the name its owner gives it; unknown ones by the name as written. */
  readonly entries: ReadonlyMap<string, MapEntry>
  /** Where what is missing altogether is told: the policy file, or the options. */
  readonly root: Origin
  readonly mistakes: readonly Diagnostic[]
  /** False when a layer could not be read at all: nothing more can be judged. */
  readonly isReadable: boolean
}

export function mergeLayers(
  layers: readonly PolicyLayer[],
  known: readonly string[],
  plugins: Iterable<Plugin> = [],
): Sections {
  const nested = [...plugins].filter(({ nestedIn }) => nestedIn !== undefined)
  const entries = new Map<string, MapEntry>()
  const mistakes: Diagnostic[] = []
  let root: Origin = { file: layers.at(-1)?.file ?? 'options' }
  let isReadable = true
  for (const layer of layers) {
    const parsed = 'text' in layer ? parsePolicyText(layer.text, layer.file) : readObject(layer)
    mistakes.push(...parsed.mistakes)
    if (parsed.root === undefined) {
      isReadable = false
      continue
    }
    if ('text' in layer) root = parsed.root.origin
    if (parsed.root.kind !== 'map') {
      const message = 'a policy is a mapping of sections; accepted is a mapping such as "tenant: acme"'
      mistakes.push(mistakeAt(parsed.root.origin, '', message))
      isReadable = false
      continue
    }
    const sections = sectionsOf(parsed.root, known, mistakes)
    for (const plugin of nested) hoist(plugin, sections, mistakes)
    for (const [name, entry] of sections) entries.set(name, entry)
  }
  return { entries, root, mistakes, isReadable }
}

function readObject(layer: Extract<PolicyLayer, { object: unknown }>): {
  root: PolicyNode
  mistakes: readonly Diagnostic[]
} {
  return { root: nodeOf(layer.object, layer.file), mistakes: [] }
}

function sectionsOf(root: MapNode, known: readonly string[], mistakes: Diagnostic[]): Map<string, MapEntry> {
  const sections = new Map<string, MapEntry>()
  for (const entry of root.entries) {
    const name = knownKey(entry.key, known) ?? entry.key
    const before = sections.get(name)
    if (before === undefined) sections.set(name, entry)
    else if (before.key !== entry.key) {
      mistakes.push(mistakeAt(entry.origin, entry.key, bothSpellings(before.key)))
    }
  }
  return sections
}

/** Takes a section out of the one it is written in: `security.ap2` is the section `ap2` (contract §2.5). */
function hoist(plugin: Plugin, sections: Map<string, MapEntry>, mistakes: Diagnostic[]): void {
  const { name, nestedIn = '' } = plugin
  const outer = sections.get(nestedIn)
  if (outer?.node.kind !== 'map') return
  const inner = outer.node.entries.find(({ key }) => key === name)
  if (inner === undefined) return
  const key = `${nestedIn}.${name}`
  if (sections.has(name)) {
    const message = `given as "${name}" too; both are the same section, give one`
    mistakes.push(mistakeAt(inner.origin, key, message))
  } else {
    sections.set(name, { ...inner, key })
  }
  const { entries, origin } = outer.node
  const rest = entries.filter((entry) => entry !== inner)
  sections.set(nestedIn, { ...outer, node: { kind: 'map', origin, entries: rest } })
}
