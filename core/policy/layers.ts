// Merges the layers into one set of sections: a later layer's section replaces an earlier one's as a whole.
import { mistakeAt, type Origin } from './diagnostic.js'
import { childOf, type Located, type MapEntry, membersOf, nodeOf } from './node.js'
import type { Diagnostic, PolicyLayer } from './types.js'
import { type ParsedText, parsePolicyText } from './yaml.js'

/** Section → the section inside which it may be written as well. */
type NestedSections = Readonly<Record<string, string>>

/** A policy is read for the modules that it names before it is read as a whole. */
const parsedLayers = new WeakMap<PolicyLayer, ParsedText>()

function parseLayer(layer: PolicyLayer): ParsedText {
  if (!('text' in layer)) return { root: nodeOf(layer.object, layer.file), mistakes: [] }
  const parsed = parsedLayers.get(layer) ?? parsePolicyText(layer.text, layer.file)
  parsedLayers.set(layer, parsed)
  return parsed
}

export class Sections {
  /** The sections by the names of their owners; unknown sections by the name as written. */
  readonly entries = new Map<string, MapEntry>()
  readonly mistakes: Diagnostic[] = []
  /** The origin at which a missing section is reported: the policy file, or the options. */
  root: Origin
  /** False when a layer could not be read: the policy is not validated further. */
  isReadable = true

  constructor(layers: readonly PolicyLayer[], known: readonly string[], nested: NestedSections = {}) {
    this.root = { file: layers.at(-1)?.file ?? 'options' }
    for (const layer of layers) this.#merge(layer, known, nested)
  }

  /** The value at a path in the schemas' spelling. */
  locate([section = '', ...keys]: readonly (string | number)[]): Located {
    const entry = this.entries.get(String(section))
    const path = entry?.key ?? String(section)
    return keys.reduce(childOf, { origin: entry?.origin ?? this.root, path, node: entry?.node } as Located)
  }

  #merge(layer: PolicyLayer, known: readonly string[], nested: NestedSections): void {
    const { root, mistakes } = parseLayer(layer)
    this.mistakes.push(...mistakes)
    if (root?.kind !== 'map') {
      const message = 'a policy is a mapping of sections; accepted is a mapping such as "tenant: acme"'
      if (root !== undefined) this.mistakes.push(mistakeAt(root.origin, '', message))
      this.isReadable = false
    }
    if (root !== undefined && 'text' in layer) this.root = root.origin
    if (root?.kind !== 'map') return
    const sections = membersOf(root, known, ({ origin, key }, message) =>
      this.mistakes.push(mistakeAt(origin, key, message)),
    )
    for (const [name, outer] of Object.entries(nested)) this.#hoist(name, outer, sections)
    for (const [name, entry] of sections) this.entries.set(name, entry)
  }

  /** Moves a nested section to the top level: `security.ap2` is the section `ap2` (contract §2.5). */
  #hoist(name: string, nestedIn: string, sections: Map<string, MapEntry>): void {
    const outer = sections.get(nestedIn)
    if (outer?.node.kind !== 'map') return
    const inner = outer.node.entries.find(({ key }) => key === name)
    if (inner === undefined) return
    const key = `${nestedIn}.${name}`
    if (sections.has(name)) {
      const message = `given as "${name}" too; both are the same section, give one`
      this.mistakes.push(mistakeAt(inner.origin, key, message))
    } else {
      sections.set(name, { ...inner, key })
    }
    const { entries, origin } = outer.node
    // Compared by key, as an object's entries are created anew at each access.
    const rest = entries.filter((entry) => entry.key !== name)
    sections.set(nestedIn, { ...outer, node: { kind: 'map', origin, entries: rest } })
  }
}
