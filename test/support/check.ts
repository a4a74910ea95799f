// Calls the `check` of a plugin as the loader of policies does.
import type { Plugin, PolicyFacts } from '@svc/core'
import { container } from 'tsyringe'

/** What it reports for a section, one line each: `mistake a.b: message`. */
export function checkSection<Config>(
  plugin: Plugin<Config>,
  section: unknown,
  facts: PolicyFacts = {},
  bindings = container.createChildContainer(),
): string[] {
  const found = plugin.check?.(plugin.schema.parse(section), facts, bindings) ?? []
  return found.map(({ path, message, severity }) => `${severity ?? 'mistake'} ${path.join('.')}: ${message}`)
}
