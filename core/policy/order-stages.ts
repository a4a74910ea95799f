// Orders the stages, and reports mistakes of the order at the wrong entry of `pipeline`.
import { checkOrder, defaultOrder, withBlocking } from '../plugin/order.js'
import type { Plugin } from '../plugin/plugin.js'
import { mistakeAt } from './diagnostic.js'
import { withoutSecrets } from './environment.js'
import type { Sections } from './layers.js'
import { type Env, itemsOf, secretsOf, textOf } from './node.js'
import type { Diagnostic } from './types.js'

interface OrderInput {
  readonly sections: Sections
  readonly plugins: readonly Plugin[]
  readonly env: Env
}

/** The plugins outermost first, and the mistakes of that order. */
export function orderStages({ sections, plugins, env }: OrderInput): {
  plugins: Plugin[]
  mistakes: Diagnostic[]
} {
  const pipeline = sections.locate(['pipeline'])
  const listed =
    pipeline.node?.kind === 'list'
      ? itemsOf(pipeline).map((item) => ({ ...item, name: textOf(item, env) }))
      : undefined
  // The schema of `pipeline` reports an entry that is not a string; the order cannot be checked then.
  if (listed?.some(({ name }) => name === undefined)) return { plugins: [], mistakes: [] }
  const names =
    listed === undefined
      ? defaultOrder(plugins)
      : withBlocking(
          listed.flatMap(({ name }) => name ?? []),
          plugins,
        )
  const secrets = secretsOf(pipeline.node, env)
  const mistakes = checkOrder(names, plugins).map((mistake) => {
    const entries = listed?.filter(({ name }) => name === mistake.name) ?? []
    const entry = /twice/.test(mistake.message) ? entries.at(-1) : entries[0]
    const fallback = pipeline.node === undefined ? sections.locate([mistake.name]) : pipeline
    const { origin } = entry ?? fallback
    return mistakeAt(origin, entry?.path ?? 'pipeline', withoutSecrets(mistake.message, secrets))
  })
  const ordered = names.flatMap((name) => plugins.find((plugin) => plugin.name === name) ?? [])
  return { plugins: ordered, mistakes }
}
