// Runs stages by themselves: a fake clock, a captured log, counted metrics, an environment and a home directory.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  bind,
  type Call,
  type Completed,
  type Denied,
  type Failed,
  judgedOnly,
  type Meter,
  notes,
  type Outcome,
  type Plugin,
  type PluginContext,
  resolveOptional,
  type Stage,
  type Token,
  tokens,
} from '@svc/core'
import { beginDispatch, type Dispatch, endDispatch, Pipeline } from '@svc/core/pipeline'
import { createStageIn } from 'svc-sdk/internal/testing/context'
import { FakeClock, type FakeContext, fakeContext } from 'svc-sdk/testing'
import type { DependencyContainer } from 'tsyringe'
import { type CallOverrides, controlOf, makeCall } from './call.js'
import { keepingLogger } from './logger.js'

/** The response of the upstream, unless a test sends another one. */
export const served: Completed = {
  kind: 'completed',
  status: 200,
  headers: {},
  body: new Uint8Array(),
}

export class RecordingMeter implements Meter {
  /** The sum of each counter, and the last value of each gauge. */
  readonly values = new Map<string, number>()
  /** The name of a counter for each time it was incremented. */
  readonly counted: string[] = []

  count(name: string, by = 1): void {
    this.counted.push(name)
    this.values.set(name, (this.values.get(name) ?? 0) + by)
  }

  gauge(name: string, value: number): void {
    this.values.set(name, value)
  }

  #watches = new Map<string, () => number | undefined>()

  watch(name: string, read: () => number | undefined): () => void {
    this.#watches.set(name, read)
    return () => void this.#watches.delete(name)
  }

  /** The value now of a gauge that a stage has read. */
  read(name: string): number | undefined {
    return this.#watches.get(name)?.()
  }
}

export class StageRig implements AsyncDisposable {
  readonly log = keepingLogger()
  readonly meter = new RecordingMeter()
  readonly env: Record<string, string> = {}
  readonly context: FakeContext
  #home: string | undefined
  readonly #stages: Stage[] = []
  readonly #containers = new WeakMap<Stage, DependencyContainer>()

  constructor(
    overrides: Partial<PluginContext> = {},
    readonly clock = new FakeClock(),
  ) {
    const homeOf = () => this.home
    const targets = { files: 'http://127.0.0.1:1' }
    this.context = {
      ...fakeContext('/', { targets, env: this.env, ...overrides }),
      clock,
      get baseDir() {
        return overrides.baseDir ?? homeOf()
      },
      get stateDir() {
        return overrides.stateDir ?? join(homeOf(), 'state')
      },
    }
    this.bind(tokens.Clock, clock)
    this.bind(tokens.Logger, this.log)
    this.bind(tokens.Meter, this.meter)
  }

  /** Directory of the policy, created on first use. The state of the gateway is in `state` below it. */
  get home(): string {
    this.#home ??= realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')))
    return this.#home
  }

  bind<T>(token: Token<T>, value: T): void {
    bind(this.context.container, token, { useValue: value })
  }

  /** Not started; for stages that need no start, and for tests of stages that were not started. */
  create(plugin: Plugin, section: unknown, context: Partial<PluginContext> = {}): Stage {
    const own = Object.keys(context).length === 0 ? this.context : { ...this.context, ...context }
    const container = own.container.createChildContainer()
    const stage = createStageIn(plugin, section, { ...own, container })
    this.#containers.set(stage, container)
    return stage
  }

  /** What the plugin of a stage has bound. */
  serviceOf<T>(stage: Stage, token: Token<T>): T | undefined {
    const container = this.#containers.get(stage)
    return container && resolveOptional(container, token)
  }

  /** `context` overrides parts of the context of the rig. */
  async start(plugin: Plugin, section: unknown = {}, context: Partial<PluginContext> = {}): Promise<Stage> {
    const stage = this.create(plugin, section, context)
    this.#stages.push(stage)
    await stage.start?.(new AbortController().signal)
    return stage
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stage of this.#stages.splice(0)) await stage.stop?.()
    if (this.#home !== undefined) rmSync(this.#home, { recursive: true, force: true })
  }
}

export interface Sent {
  /** Has the slots that the stage filled, and its findings. */
  readonly call: Call
  readonly outcome: Outcome
}

/** Sends a call through the stage to an upstream. */
export async function send(
  stage: Stage,
  given: CallOverrides | Call = {},
  response: Outcome = served,
): Promise<Sent> {
  const call = 'need' in given ? given : makeCall(given)
  const control = controlOf(call)
  const outcome = await stage.handle(call, () => control[beginDispatch]() ?? control[endDispatch](response))
  return { call, outcome }
}

/** Sends a call through the stage with its holds, as the gateway does. */
export function sendWithHolds(name: string, stage: Stage, call: Call, upstream: Dispatch): Promise<Outcome> {
  return new Pipeline([{ name, stage }], upstream).run(controlOf(call))
}

/** The notes of the stage about a call that is judged and not sent. */
export async function explain(
  stage: Stage,
  given: CallOverrides | Call = {},
): Promise<{ lines: string[]; outcome: Outcome }> {
  const lines: string[] = []
  const call = 'need' in given ? given : makeCall(given)
  call.set(notes, (line) => void (line === '' || lines.push(line)))
  call.set(judgedOnly, true)
  const outcome = await stage.handle(call, async () => served)
  return { lines, outcome }
}

/** Throws when the call was accepted. */
export function refusal({ outcome }: { readonly outcome: Outcome }): Denied | Failed {
  if (outcome.kind === 'completed') throw new Error('the call was accepted')
  return outcome
}

/** `CODE: message` of the refusal. */
export function why(response: { readonly outcome: Outcome }): string {
  const { code, message } = refusal(response)
  return `${code}: ${message}`
}
