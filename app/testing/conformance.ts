// The promises of the plugin contract as a list of tests, which the plugins that ship pass as well.
import { strict as assert } from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Call,
  CORE_VERSION,
  failed,
  identity,
  limits,
  notes,
  type Outcome,
  type Plugin,
  type Slot,
  type Stage,
  verdict,
  withinLimit,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { satisfies, valid, validRange } from 'semver'
import { fakeCallControl } from './call.js'
import { createStage, type FakeContext, fakeContext, parseSection } from './context.js'
import { attemptCall, endings, type StageAttempt, served } from './stage-attempt.js'

/** A test for any framework. */
export interface ConformanceTest {
  readonly title: string
  /** Rejects when the plugin does not keep the promise. */
  readonly run: () => Promise<void>
}

/** Options of `conformance`. */
export interface ConformanceOptions {
  /**
   * The section as an author would write it, before defaults; `{}` by default. A function gets a temporary directory,
   * which is removed after each test, and is also the context's `baseDir` and `stateDir`.
   */
  readonly validConfig?: unknown | ((directory: string) => unknown)
  /** Longest time of a call in a test, in milliseconds; default 5000. */
  readonly timeoutMs?: number
  /** Binds what the stage resolves when it is created, and what a gateway would bind of your own. */
  configure?(context: FakeContext): void
  /** Fills your own slots that your stage reads; those of the built-in stages are filled. */
  fill?(call: Call): void
}

/** The promises of the plugin contract (`core/plugin.ts`, `core/stage.ts`). */
export function conformance(plugin: Plugin, options: ConformanceOptions = {}): ConformanceTest[] {
  return [
    ...metadata(plugin),
    ...schema(plugin, options),
    ...lifeCycle(plugin, options),
    ...calls(plugin, options),
  ]
}

const sectionName = /^[a-z][a-z0-9_]*$/

function metadata(plugin: Plugin): ConformanceTest[] {
  const { name, version, core, uses = [], provides = [] } = plugin
  return [
    test('has a name of lower-case letters, digits and underscores', () => {
      assert.match(name, sectionName)
    }),
    test('has a semver version', () => {
      assert.equal(valid(version), version, `${version} is not a semver version`)
    }),
    test('names a range of contract versions that includes the one in use', () => {
      assert.notEqual(validRange(core), null, `${core} is not a semver range`)
      assert.ok(satisfies(CORE_VERSION, core), `${core} does not hold ${CORE_VERSION}`)
    }),
    test('names each slot that it reads or fills once', () => {
      const slots = [...uses, ...provides].map(({ index }) => index)
      assert.equal(new Set(slots).size, slots.length, 'a slot is named twice')
    }),
  ]
}

function schema(plugin: Plugin, options: ConformanceOptions): ConformanceTest[] {
  return [
    test('accepts the configuration given as valid', () =>
      withDirectory(async (directory) => {
        parseSection(plugin, sectionOf(options, directory))
      })),
    test('refuses a key that it does not know', () =>
      withDirectory(async (directory) => {
        const config = sectionOf(options, directory)
        assert.ok(typeof config === 'object' && config !== null, 'the section is not an object')
        const { success } = plugin.schema.safeParse({ ...config, no_such_key: true })
        assert.ok(!success, 'an unknown key is accepted and ignored')
      })),
    test('refuses a section that is not a mapping', () => {
      for (const section of [null, 'text', 1, ['list']]) {
        assert.ok(!plugin.schema.safeParse(section).success, `${JSON.stringify(section)} is accepted`)
      }
    }),
  ]
}

function lifeCycle(plugin: Plugin, options: ConformanceOptions): ConformanceTest[] {
  const live = (title: string, run: StageTest): ConformanceTest =>
    test(title, () => withStage(plugin, options, run))
  return [
    live('opens nothing before it is started', async (_stage, { resources }) => {
      assert.equal(resources.size, 0, 'create() opened a resource; start() should')
    }),
    live('gives counters, and no other metrics, names that end in _total', async (_stage, { declared }) => {
      for (const [metric, { kind, help }] of Object.entries(declared)) {
        assert.match(metric, /^[a-z_:][a-z0-9_:]*$/)
        assert.equal(metric.endsWith('_total'), kind === 'counter', metric)
        assert.notEqual(help.trim(), '', metric)
      }
    }),
    live('stops without having been started', async (stage) => {
      await stage.stop?.()
    }),
    live('stops twice', async (stage) => {
      await start(stage)
      await stage.stop?.()
      await stage.stop?.()
    }),
    live('starts again after a stop', async (stage) => {
      await start(stage)
      await stage.stop?.()
      await start(stage)
      await stage.stop?.()
    }),
    live('releases every shared resource when it stops', async (stage, { resources }) => {
      await start(stage)
      await stage.stop?.()
      assert.equal(resources.size, 0, 'a resource is still held')
    }),
    live('can be created twice from one configuration, as a reload does', async (first, context, again) => {
      const second = again()
      await start(first)
      try {
        await start(second)
        await first.stop?.()
      } finally {
        await second.stop?.()
      }
      assert.equal(context.resources.size, 0, 'a resource is still held')
    }),
  ]
}

function calls(plugin: Plugin, options: ConformanceOptions): ConformanceTest[] {
  return [
    test('returns an outcome and throws no error but a Refusal, whatever the rest of the pipeline returns', () =>
      tryEndings(plugin, options, async (attempt) => {
        assert.equal(attempt.stageError, undefined, attempt.stageError)
      })),
    test('calls next() at most once, and awaits its result', () =>
      tryEndings(plugin, options, async ({ nextCalls, isInside }) => {
        assert.ok(nextCalls <= 1, `next() was called ${nextCalls} times`)
        assert.ok(!isInside, 'handle() returned before next() had ended')
      })),
    test('denies a call that was sent only by a finding, which the record contains', () =>
      tryEndings(plugin, options, async ({ call, inside, outcome }) => {
        if (call.sent === 'no' || outcome.kind !== 'denied' || inside?.kind === 'denied') return
        assert.ok(call.findings.length > 0, `${outcome.code} after next(), without a finding`)
      })),
    test('ends when the call is aborted', () =>
      withStage(plugin, options, async (stage) => {
        await start(stage)
        const call = fillSlots(plugin, options, fakeCallControl())
        const aborted = new Promise<Outcome>((resolve) => {
          call.abortState.addEventListener('abort', () =>
            resolve(failed('CANCELLED', 'The call was aborted.')),
          )
        })
        const running = attemptCall(stage, call, () => aborted, limitOf(options))
        call.abort('CANCELLED', 'The call was aborted.')
        await withinLimit('handle()', running, limitOf(options))
      })),
    test('sets no slot that is not in `provides`', () =>
      withStage(plugin, options, async (stage) => {
        await start(stage)
        for (const call of everyKindOfCall()) {
          const set = recordSlots(fillSlots(plugin, options, call))
          const { stageError } = await attemptCall(stage, call, () => served, limitOf(options))
          assert.equal(stageError, undefined, stageError)
          assert.deepEqual(undeclaredSlots(plugin, set), [], 'set, and not in provides')
        }
      })),
    test('decides alike about a call whose notes somebody reads', () =>
      withStage(plugin, options, async (stage) => {
        await start(stage)
        const controls = everyKindOfCall()
        for (const [index, noted] of everyKindOfCall().entries()) {
          noted.set(notes, (text) => assert.equal(typeof text, 'string'))
          const decide = async (call = fakeCallControl()) => {
            fillSlots(plugin, options, call)
            const { outcome } = await attemptCall(stage, call, () => served, limitOf(options))
            return outcome.kind
          }
          assert.equal(await decide(noted), await decide(controls[index]), 'another decision with notes')
        }
      })),
  ]
}

/** Calls over both protocols, with and without an idempotency key, and one that names nothing. */
function everyKindOfCall(): CallControl[] {
  return [
    fakeCallControl(),
    fakeCallControl({ headers: { 'idempotency-key': 'key-1' }, request: { idempotencyKey: 'key-1' } }),
    fakeCallControl({ protocol: 'mcp', tool: 'delete_invoice' }),
    fakeCallControl({ protocol: 'mcp', request: { kind: 'protocol', method: 'ping' } }),
  ]
}

/** Collects the slots that are set from now on. */
function recordSlots(call: Call): readonly Slot<unknown>[] {
  const set: Slot<unknown>[] = []
  const original = call.set.bind(call)
  call.set = (slot, value) => {
    set.push(slot)
    original(slot, value)
  }
  return set
}

function undeclaredSlots(plugin: Plugin, set: readonly Slot<unknown>[]): string[] {
  const declared = new Set((plugin.provides ?? []).map(({ index }) => index))
  return namesOf(set.filter(({ index }) => !declared.has(index)))
}

function namesOf(slots: readonly Slot<unknown>[]): string[] {
  return slots.map(({ name }) => name)
}

/** Every kind of call with every ending. */
function tryEndings(
  plugin: Plugin,
  options: ConformanceOptions,
  check: (attempt: StageAttempt) => Promise<void>,
): Promise<void> {
  return withStage(plugin, options, async (stage) => {
    await start(stage)
    for (const ending of endings) {
      for (const call of everyKindOfCall()) {
        await check(await attemptCall(stage, fillSlots(plugin, options, call), ending, limitOf(options)))
      }
    }
  })
}

function limitOf({ timeoutMs = 5_000 }: ConformanceOptions): number {
  return timeoutMs
}

function test(title: string, run: () => Promise<void> | void): ConformanceTest {
  return { title, run: async () => run() }
}

async function withDirectory(use: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-conformance-'))
  try {
    await use(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** `again` makes a second stage of the same configuration. */
type StageTest = (stage: Stage, context: FakeContext, again: () => Stage) => Promise<void>

function withStage(plugin: Plugin, options: ConformanceOptions, use: StageTest): Promise<void> {
  return withDirectory(async (directory) => {
    const context = fakeContext(directory)
    options.configure?.(context)
    const section = sectionOf(options, directory)
    const create = (): Stage => createStage(plugin, section, context)
    const stage = create()
    try {
      await use(stage, context, create)
    } finally {
      await stage.stop?.()
    }
  })
}

async function start(stage: Stage): Promise<void> {
  await stage.start?.(new AbortController().signal)
}

function sectionOf({ validConfig = {} }: ConformanceOptions, directory: string): unknown {
  return typeof validConfig === 'function' ? validConfig(directory) : validConfig
}

/** Fills the slots that earlier stages would have filled, except those that this stage fills. */
function fillSlots(plugin: Plugin, { fill }: ConformanceOptions, call: CallControl): CallControl {
  const own = new Set((plugin.provides ?? []).map(({ index }) => index))
  if (!own.has(identity.index)) {
    call.set(identity, { tenant: 'acme', authenticated: true, user: 'ada@example.com', roles: [] })
  }
  if (!own.has(limits.index)) call.set(limits, [])
  if (!own.has(verdict.index)) call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
  fill?.(call)
  return call
}
