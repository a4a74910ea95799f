// What a plugin is created with, for tests of single stages.
import 'reflect-metadata'
import { type PluginContext, Resources } from '@svc/core'
import { container } from 'tsyringe'

export interface TestContext extends PluginContext {
  /** What the plugin warned of. */
  readonly warnings: string[]
}

export function makeContext(overrides: Partial<PluginContext> = {}): TestContext {
  const warnings: string[] = []
  return {
    container: container.createChildContainer(),
    resources: new Resources(),
    tenant: 'acme',
    targets: { files: 'http://127.0.0.1:1' },
    policySha256: null,
    facts: {},
    baseDir: '/',
    stateDir: '/',
    warn: (message) => warnings.push(message),
    ...overrides,
    warnings,
  }
}
