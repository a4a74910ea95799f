import {
  type Call,
  declareMetrics,
  definePlugin,
  denied,
  type Next,
  type Plugin,
  type Resources,
  type Stage,
  slot,
} from '@svc/core'
import { expect } from 'chai'
import { type ConformanceOptions, conformance } from 'svc-sdk/testing'
import { z } from 'zod'

const sound = definePlugin({
  name: 'sound',
  version: '1.2.3',
  core: '^1.0.0',
  schema: z.strictObject({ level: z.number().default(1) }),
  create: () => ({ handle: (_call, next) => next() }),
})

async function failures(plugin: Plugin, options: ConformanceOptions = {}): Promise<string[]> {
  const failed: string[] = []
  for (const { title, run } of conformance(plugin, options)) {
    await run().catch(() => failed.push(title))
  }
  return failed
}

/** A stage that passes every call on, with these life cycle methods. */
function living(life: Partial<Stage>): Stage {
  return { handle: (_call, next) => next(), ...life }
}

const ok = { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() }

const failsUnlessCompleted: Handle = async (_call, next) => {
  const outcome = await next()
  if (outcome.kind !== 'completed') throw new Error('not completed')
  return outcome
}

const changesRequest: Handle = async (call, next) => {
  Object.assign((await call.request()).args as object, { amount: 1 })
  return next()
}

/** A handler in JavaScript, where no compiler checks what a stage returns. */
type Handle = (call: Call, next: Next) => unknown

function misbehaving(mistake: string, handle: Handle, title: RegExp): [string, Plugin, RegExp] {
  return [mistake, { ...sound, create: () => ({ handle: handle as Stage['handle'] }) }, title]
}

function leasing(resources: Resources): Stage {
  const lease = resources.acquire('key', () => ({ value: 1, close: () => undefined }))
  return living({ stop: () => lease.release() })
}

describe('the plugin conformance suite', () => {
  it('passes a sound plugin', async () => {
    expect(await failures(sound)).to.deep.equal([])
  })

  const broken: [mistake: string, plugin: Plugin, title: RegExp][] = [
    ['a name that no section can have', { ...sound, name: 'My-Stage' }, /has a name of/],
    ['a version that is not semver', { ...sound, version: '1.2' }, /semver/],
    ['a contract of an older version', { ...sound, core: '^0.9.0' }, /range of contract versions/],
    ['an invalid range', { ...sound, core: 'latest' }, /range of contract versions/],
    [
      'a schema that accepts unknown keys',
      { ...sound, schema: z.looseObject({}) },
      /key that it does not know/,
    ],
    ['a schema that accepts other values than mappings', { ...sound, schema: z.any() }, /not a mapping/],
    [
      'a counter whose name does not say that it is one',
      {
        ...sound,
        create(_config, { container }) {
          declareMetrics(container, { svc_calls: { kind: 'counter', help: 'Calls.' } })
          return living({})
        },
      },
      /_total/,
    ],
    [
      'a stop that fails without a start',
      { ...sound, create: () => living({ stop: () => Promise.reject(new Error('not started')) }) },
      /without having been started/,
    ],
    [
      'a resource that is opened at creation',
      { ...sound, create: (_c, { resources }) => leasing(resources) },
      /opens nothing/,
    ],
    [
      'a resource that is not released',
      {
        ...sound,
        create: (_c, { resources }) =>
          living({
            start: async () => {
              resources.acquire('key', () => ({ value: 1, close: () => undefined }))
            },
          }),
      },
      /releases every shared resource/,
    ],
    misbehaving('a missing outcome', async (_call, next) => void (await next()), /returns an outcome/),
    misbehaving('an outcome of another shape', () => ({ status: 200, body: 'done' }), /returns an outcome/),
    misbehaving('a response whose body is a string', () => ({ ...ok, body: 'done' }), /returns an outcome/),
    misbehaving('a thrown error', () => Promise.reject(new Error('boom')), /throws no error/),
    misbehaving('an error that is thrown if the call is denied', failsUnlessCompleted, /throws no error/),
    misbehaving('a change of the request', changesRequest, /throws no error/),
    misbehaving(
      'a change of the outcome',
      async (_call, next) => Object.assign(await next(), ok),
      /throws no error/,
    ),
    misbehaving(
      'a second call of next()',
      async (_call, next) => [await next(), await next()][0],
      /at most once/,
    ),
    misbehaving('a next() that is not awaited', (_call, next) => [next(), ok][1], /awaits its result/),
    misbehaving(
      'a denial after next() without a finding',
      async (_call, next) => [await next(), denied('TOOL_NOT_ALLOWED', 'no')][1],
      /only by a finding/,
    ),
    misbehaving('a stage that hangs', () => new Promise(() => undefined), /when the call is aborted/),
  ]

  for (const [mistake, plugin, title] of broken) {
    it(`catches ${mistake}`, async () => {
      expect((await failures(plugin, { timeoutMs: 50 })).some((failed) => title.test(failed))).to.equal(true)
    })
  }

  it('catches a slot that is both read and filled', async () => {
    const own = slot<string>('own')
    expect((await failures({ ...sound, uses: [own], provides: [own] }))[0]).to.match(/names each slot/)
  })

  const setting = (slots: readonly string[]): Plugin['create'] => {
    const own = slots.map((name) => slot<string>(name))
    return () => ({
      handle: (call, next) => {
        for (const one of own) call.set(one, 'x')
        return next()
      },
    })
  }
  const badge = slot<string>('test/badge')

  it('accepts a slot that is set, and one that may stay empty', async () => {
    expect(await failures({ ...sound, provides: [badge], create: setting(['test/badge']) })).to.deep.equal([])
    expect(await failures({ ...sound, provides: [badge], create: setting(['test/badge']) })).to.deep.equal([])
    expect(await failures({ ...sound, provides: [badge] })).to.deep.equal([])
  })

  it('catches a slot that is set and not declared', async () => {
    expect(await failures({ ...sound, create: setting(['test/badge']) })).to.have.length(1)
  })

  it('catches a stage that decides otherwise if its notes are read', async () => {
    const other = living({
      handle: (call, next) => (call.isNoted ? denied('TOOL_NOT_ALLOWED', 'noted') : next()),
    })
    expect(await failures({ ...sound, create: () => other })).to.deep.equal([
      'decides alike about a call whose notes somebody reads',
    ])
  })

  it('catches a stage that cannot be started again', async () => {
    const once: Plugin = {
      ...sound,
      create: () => {
        let started = false
        return living({
          start: async () => {
            if (started) throw new Error('started twice')
            started = true
          },
        })
      },
    }
    expect(await failures(once)).to.deep.equal(['starts again after a stop'])
  })

  it('fills the slots of the plugin through `fill`', async () => {
    const own = slot<string>('own')
    const reader: Plugin = {
      ...sound,
      uses: [own],
      create: () => ({
        handle: (call, next) => {
          call.need(own)
          return next()
        },
      }),
    }
    expect(await failures(reader)).to.have.length(2)
    expect(await failures(reader, { fill: (call) => call.set(own, 'x') })).to.deep.equal([])
  })
})
