// Whether the stages stand in an order that works, told at the entry of `pipeline` that is wrong.
import { checkOrder, defaultOrder } from '../plugin/order.js'
import type { Plugin } from '../plugin/plugin.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { withoutSecrets } from './environment.js'
import type { MapEntry } from './node.js'
import type { Diagnostic } from './types.js'
import { secretsOf, textOf } from './uses.js'

export interface OrderInput {
  /** The policy's own `pipeline`, where it has one. */
  readonly pipeline: MapEntry | undefined
  readonly plugins: readonly Plugin[]
  readonly originOf: (section: string) => Origin
  readonly env: Readonly<Record<string, string | undefined>>
  /** Modules are still to be imported: names that no plugin has, and slots nobody fills, are not judged. */
  readonly isPending: boolean
}

/** The plugins outermost first, and what is wrong with that order. */
export function orderStages(input: OrderInput): { plugins: Plugin[]; mistakes: Diagnostic[] } {
  const { plugins } = input
  const listed = listedStages(input)
  // The schema of `pipeline` has said what is wrong; what stage an entry means cannot be guessed.
  if (listed?.some(({ name }) => name === undefined)) return { plugins: [], mistakes: [] }
  const names = listed?.flatMap(({ name }) => name ?? []) ?? defaultOrder(plugins)
  const judged = input.isPending
    ? names.filter((name) => plugins.some((plugin) => plugin.name === name))
    : names
  const secrets = secretsOf(input.pipeline?.node, input.env)
  const mistakes = checkOrder(judged, input.isPending ? withoutUnfilled(plugins) : plugins).map((mistake) => {
    const entries = listed?.filter(({ name }) => name === mistake.name) ?? []
    const entry = /twice/.test(mistake.message) ? entries.at(-1) : entries[0]
    const origin = entry?.origin ?? input.pipeline?.origin ?? input.originOf(mistake.name)
    return mistakeAt(origin, entry?.path ?? 'pipeline', withoutSecrets(mistake.message, secrets))
  })
  const ordered = names.flatMap((name) => plugins.find((plugin) => plugin.name === name) ?? [])
  return { plugins: ordered, mistakes }
}

function listedStages({ pipeline, env }: OrderInput) {
  if (pipeline === undefined || pipeline.node.kind !== 'list') return undefined
  return pipeline.node.items.map((item, index) => {
    return { name: textOf(item, env), origin: item.origin, path: `pipeline[${index}]` }
  })
}

function withoutUnfilled(plugins: readonly Plugin[]): Plugin[] {
  const filled = new Set(plugins.flatMap(({ provides }) => (provides ?? []).map(({ index }) => index)))
  return plugins.map((plugin): Plugin => {
    const requires = (plugin.requires ?? []).filter(({ index }) => filled.has(index))
    return Object.create(plugin, { requires: { value: requires } })
  })
}
