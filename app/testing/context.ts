// The context of a plugin in a test: a container of its own, a clock that stands still, no log output.
import 'reflect-metadata'
import { strict as assert } from 'node:assert'
import {
  bind,
  bindForPipeline,
  bindOwned,
  type Clock,
  type Ids,
  type Logger,
  type Meter,
  type MetricEntry,
  type Plugin,
  type PluginContext,
  Resources,
  type Stage,
  tokens,
} from '@svc/core'
import { container as root } from 'tsyringe'

/** `section` is written as in a policy, before defaults. Throws if the schema refuses it. Nothing is started. */
export function createStage(plugin: Plugin, section: unknown, context: PluginContext): Stage {
  return createStageIn(plugin, section, {
    ...context,
    container: context.container.createChildContainer(),
  })
}

/** The same stage, with its bindings in the container of `context`. */
export function createStageIn(plugin: Plugin, section: unknown, context: PluginContext): Stage {
  const config = parseSection(plugin, section)
  bindOwned(context.container, plugin, config)
  bindForPipeline(plugin, config, context)
  return plugin.create(config, context)
}

export function parseSection(plugin: Plugin, section: unknown): unknown {
  const result = plugin.schema.safeParse(section)
  assert.ok(result.success, `the schema refuses it: ${result.error?.message}`)
  return result.data
}

/** Ids that count up, so that a test can name the one it expects. */
export class FakeIds implements Ids {
  #traces = 0
  #spans = 0

  /** `000…001`, `000…002`, …: 32 hex digits. */
  traceId(): string {
    return (++this.#traces).toString(16).padStart(32, '0')
  }

  /** `000…001`, `000…002`, …: 16 hex digits. */
  spanId(): string {
    return (++this.#spans).toString(16).padStart(16, '0')
  }
}

/** A clock that only `advance` and `set` move. */
export class FakeClock implements Clock {
  #now: number
  #monotonic = 0

  /** Starts at `now`, milliseconds since the epoch; 2026-01-01T00:00:00Z by default. */
  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now
  }

  /** Bound like `monotonic`, so that it may be passed as a function. */
  readonly now = (): number => this.#now
  readonly monotonic = (): number => this.#monotonic

  /** Moves both readings on by `ms`, which is not negative. */
  advance(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`time does not pass by ${ms} ms`)
    this.#now += ms
    this.#monotonic += ms
  }

  /** Sets the wall clock, as an administrator does; the monotonic one does not change. */
  set(now: number): void {
    this.#now = now
  }
}

export interface FakeContext extends PluginContext {
  readonly clock: FakeClock
  /** The plugin's warnings for the operator. */
  readonly warnings: readonly string[]
  /** The metrics that stages have declared. */
  readonly declared: Readonly<Record<string, MetricEntry>>
}

/** `directory` stands for the policy's and the gateway's own; a test that writes there gives a temporary one. */
export function fakeContext(directory: string, overrides: Partial<PluginContext> = {}): FakeContext {
  const container = overrides.container ?? root.createChildContainer()
  const clock = new FakeClock()
  const warnings: string[] = []
  bind(container, tokens.Clock, { useValue: clock })
  bind(container, tokens.Ids, { useValue: new FakeIds() })
  bind(container, tokens.Logger, { useValue: silent })
  const declared: Record<string, MetricEntry> = {}
  const declare: Meter['declare'] = (metrics) => void Object.assign(declared, metrics)
  bind(container, tokens.Meter, { useValue: { count: () => undefined, declare } })
  return {
    resources: new Resources(),
    tenant: 'acme',
    targets: { billing: 'http://127.0.0.1:9' },
    policySha256: null,
    baseDir: directory,
    stateDir: directory,
    warn: (message) => {
      warnings.push(message)
    },
    ...overrides,
    container,
    clock,
    warnings,
    declared,
  }
}

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
