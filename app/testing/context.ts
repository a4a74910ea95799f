// What a plugin is created with, in a test: a container of its own, a clock that stands still, no log output.
import 'reflect-metadata'
import { bind, type Logger, type PluginContext, Resources, tokens } from '@svc/core'
import { container as root } from 'tsyringe'
import { FakeClock } from './clock.js'
import { FakeIds } from './ids.js'

export interface FakeContext extends PluginContext {
  readonly clock: FakeClock
  /** What the plugin warned the operator of. */
  readonly warnings: readonly string[]
}

/** `directory` stands for the policy's and the gateway's own; a test that writes there gives a temporary one. */
export function fakeContext(directory: string, overrides: Partial<PluginContext> = {}): FakeContext {
  const container = overrides.container ?? root.createChildContainer()
  const clock = new FakeClock()
  const warnings: string[] = []
  bind(container, tokens.Clock, { useValue: clock })
  bind(container, tokens.Ids, { useValue: new FakeIds() })
  bind(container, tokens.Logger, { useValue: silent })
  bind(container, tokens.Meter, { useValue: { count: () => undefined } })
  return {
    resources: new Resources(),
    tenant: 'acme',
    targets: { billing: 'http://127.0.0.1:9' },
    policySha256: null,
    facts: {},
    baseDir: directory,
    stateDir: directory,
    warn: (message) => {
      warnings.push(message)
    },
    ...overrides,
    container,
    clock,
    warnings,
  }
}

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
