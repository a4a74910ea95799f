// Calls the `check` of a plugin as the loader of policies does.
import type { Plugin, PolicyFacts, Token } from '@svc/core'

interface Bindings {
  isBound?(token: Token<unknown>): boolean
  bindingOf?<T>(token: Token<T>): T | undefined
}

/** What it reports for a section, one line each: `mistake a.b: message`. */
export function checkSection<Config>(
  plugin: Plugin<Config>,
  section: unknown,
  facts: PolicyFacts = {},
  { isBound = () => false, bindingOf = () => undefined }: Bindings = {},
): string[] {
  const found = plugin.check?.(plugin.schema.parse(section), facts, isBound, bindingOf) ?? []
  return found.map(({ path, message, severity }) => `${severity ?? 'mistake'} ${path.join('.')}: ${message}`)
}
