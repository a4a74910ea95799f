// Calls the `check` of a plugin as the loader of policies does.
import { bind, type Plugin, policyTokens, type Token } from '@svc/core'
import { container, type DependencyContainer } from 'tsyringe'

/** What sections and host of a policy state, by the names of `policyTokens`. */
export type PolicyValues = {
  readonly [K in keyof typeof policyTokens]?: (typeof policyTokens)[K] extends Token<infer T> ? T : never
}

export function bindPolicy(bindings: DependencyContainer, values: PolicyValues): void {
  for (const [name, value] of Object.entries(values)) {
    bind(bindings, policyTokens[name as keyof PolicyValues], { useValue: value })
  }
}

/** What it reports for a section, one line each: `mistake a.b: message`. */
export function checkSection<Config>(
  plugin: Plugin<Config>,
  section: unknown,
  policy: PolicyValues = {},
  bindings = container.createChildContainer(),
): string[] {
  bindPolicy(bindings, policy)
  const found = plugin.check?.(plugin.schema.parse(section), bindings) ?? []
  return found.map(({ path, message, severity }) => `${severity ?? 'mistake'} ${path.join('.')}: ${message}`)
}
