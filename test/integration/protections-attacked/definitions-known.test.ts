// Attacks on what gateways know of definitions: pins, what callers were served, reviews, and the lock file.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hostClock, type ReceivedDefinition, type Stage, services } from '@svc/core'
import { RedisKeyValueStore } from '@svc/core/redis'
import { MemoryKeyValueStore } from '@svc/core/store'
import { definitionReviews, readLockFile } from '@svc/plugin-protections'
import { expect } from 'chai'
import { DefinitionsRig, reasonsFor, shownTo, tool } from '../../plugins/protections/definitions-rig.js'
import { startRedis } from '../../support/redis.js'
import { until } from '../../support/stdio-target.js'
import { temporaryDir } from '../../support/temporary-dir.js'

const reviewsOf = (rig: DefinitionsRig, stage: Stage) => {
  const reviews = rig.serviceOf(stage, definitionReviews)
  if (reviews === undefined) throw new Error('no reviews')
  return reviews
}

describe('what is known of definitions, under attack', function () {
  this.timeout(60_000)

  it('is not forgotten while a server sends others so many lists that the store drops some', async () => {
    await using rig = new DefinitionsRig()
    const store = new MemoryKeyValueStore({ clock: rig.clock })
    rig.bind(services.sharedStore, async () => store)
    const stage = await rig.open({ trust: 'first_use' })
    const names = Array.from({ length: 11 }, (_, i) => tool(`t${i}`))
    await shownTo(stage, 'ada', [tool('a'), ...names])
    await shownTo(stage, 'ada', [tool('a', 'other')])
    for (let page = 1; page < 1_200; page++) {
      await shownTo(
        stage,
        'bob',
        names.filter((_, i) => (page >> i) % 2 === 1),
      )
    }
    rig.clock.advance(2_000)
    expect(await reasonsFor(stage, 'ada', 'a')).to.deep.equal(['tool_definition_changed'])
    expect(await reasonsFor(stage, 'bob', 'a')).to.deep.equal([])
    expect(await shownTo(stage, 'ada', [tool('a')])).to.deep.equal(['a'])
    expect(await reasonsFor(stage, 'ada', 'a')).to.deep.equal([])
  })

  it('is complete if two gateways send one caller lists at the same time', async () => {
    await using redis = await startRedis()
    await using rig = new DefinitionsRig()
    rig.bind(
      services.sharedStore,
      async () => new RedisKeyValueStore({ url: redis.url, keyPrefix: 'svc:', clock: hostClock }),
    )
    const gateways = [await rig.open({ trust: 'first_use' }), await rig.open({ trust: 'first_use' })] as const
    const names = Array.from({ length: 20 }, (_, i) => `t${i}`)
    for (const stage of gateways)
      await shownTo(
        stage,
        'ada',
        names.map((name) => tool(name)),
      )
    rig.clock.advance(2_000)
    await Promise.all(names.map((name, i) => shownTo(gateways[i % 2]!, 'ada', [tool(name, 'other')])))
    rig.clock.advance(2_000)
    for (const name of names)
      for (const stage of gateways)
        expect(await reasonsFor(stage, 'ada', name), name).to.deep.equal(['tool_definition_changed'])
  })

  it('has no pin for a tool that was accepted as a prompt', async () => {
    await using rig = new DefinitionsRig()
    const stage = await rig.open({ trust: 'accept' })
    const prompt: ReceivedDefinition = { ...tool('wipe'), kind: 'prompt' }
    expect(await shownTo(stage, 'ada', [prompt])).to.deep.equal([])
    const [review] = await reviewsOf(rig, stage).waiting()
    await reviewsOf(rig, stage).accept('files', review!.review, { kind: 'admin' })
    expect(await shownTo(stage, 'ada', [prompt])).to.deep.equal(['wipe'])
    expect(await shownTo(stage, 'ada', [tool('wipe')])).to.deep.equal([])
    expect(await reasonsFor(stage, 'ada', 'wipe')).to.deep.equal(['tool_definition_unknown'])
  })

  it('is not accepted with a review that was read before it began to wait', async () => {
    await using rig = new DefinitionsRig()
    const stage = await rig.open({ trust: 'accept' })
    for (let round = 0; round < 10; round++) {
      await shownTo(stage, 'ada', [tool(`read${round}`)])
      const [review] = await reviewsOf(rig, stage).waiting()
      const accepting = reviewsOf(rig, stage)
        .accept('files', review!.review, { kind: 'admin' })
        .catch(() => undefined)
      await Promise.all([
        accepting,
        shownTo(stage, 'ada', [tool(`unread${round}`)]),
        shownTo(stage, 'bob', [tool(`read${round}`, 'unread')]),
      ])
      expect(
        await shownTo(stage, 'ada', [tool(`unread${round}`), tool(`read${round}`, 'unread')]),
      ).to.deep.equal([])
      const [rest] = await reviewsOf(rig, stage).waiting()
      for (const { text, name } of rest!.definitions.filter(
        (one) => !one.name.startsWith('read') || one.text?.includes('unread'),
      ))
        expect(`${text}${name}`).to.contain('unread')
    }
  })

  it('is refused, and nothing is pinned, while the store is down, from the start on or later', async () => {
    await using redis = await startRedis()
    await redis.kill('SIGKILL')
    await using rig = new DefinitionsRig()
    rig.bind(
      services.sharedStore,
      async () => new RedisKeyValueStore({ url: redis.url, keyPrefix: 'svc:', clock: hostClock }),
    )
    const stage = await rig.open({ trust: 'first_use' })
    const codes = () =>
      Promise.all(
        [shownTo(stage, 'ada', [tool('a')]), reasonsFor(stage, 'ada', 'a')].map((asked) =>
          asked.then(
            (value) => value,
            ({ code }) => code,
          ),
        ),
      )
    expect(await codes()).to.deep.equal(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'])
    await redis.restart()
    await until(async () => {
      rig.clock.advance(2_000)
      return (await codes())[0] !== 'STORE_UNAVAILABLE'
    })
    expect(await codes()).to.deep.equal([['a'], []])
    await redis.kill('SIGKILL')
    rig.clock.advance(2_000)
    expect(await codes()).to.deep.equal(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'])
  })
})

describe('a lock file that was made to harm', function () {
  this.timeout(30_000)
  const dir = temporaryDir()
  const head = 'version: 1\nservers:\n  files:\n    tools:\n'
  const levels = Array.from({ length: 8 }, (_, i) => `        y${i}: &l${i + 1} [${`*l${i},`.repeat(10)}]\n`)
  const files: Readonly<Record<string, string | Buffer>> = {
    'aliases that double': `${head}      - name: a\n        x: &l0 [1]\n${levels.join('')}`,
    'an alias of itself': `${head}      - &a {name: a, x: *a}\n`,
    'a merge key': `${head}      - &a {name: a}\n      - {<<: *a, description: c}\n`,
    'a member twice': `${head}      - {name: a, name: b}\n`,
    'a server twice': 'version: 1\nservers:\n  files: {}\n  files: {}\n',
    'a tag': `${head}      - !!js/function "x"\n`,
    'a lone surrogate': `${head}      - {name: a, description: "\\ud800"}\n`,
    'a number that is none': `${head}      - {name: a, x: .nan}\n`,
    'a number without a size': `${head}      - {name: a, x: 1e999}\n`,
    'a member of the prototype': `${head}      - {name: a, __proto__: {b: 1}}\n`,
    'deep lists': `${head}      - {name: a, x: ${'['.repeat(20_000)}${']'.repeat(20_000)}}\n`,
    'two documents': `${head}      - {name: a}\n---\nversion: 1\nservers: {}\n`,
    'no text': Buffer.from([0xff, 0xfe, 0, 1]),
    'a conflict of a merge': `<<<<<<< HEAD\n${head}`,
    'another key': 'version: 1\nservers: {files: {tool: []}}\n',
  }

  for (const [name, text] of Object.entries(files)) {
    it(`with ${name} is refused with line and column`, () => {
      writeFileSync(join(dir.path, 'lock.yaml'), text)
      expect(() => readLockFile('lock.yaml', dir.path))
        .to.throw(/lock\.yaml:\d+:\d+ /)
        .with.property('name', 'LockFileError')
    })
  }

  it('that is a directory, a loop of links or too large is refused', () => {
    mkdirSync(join(dir.path, 'directory'))
    symlinkSync(join(dir.path, 'loop'), join(dir.path, 'loop'))
    writeFileSync(join(dir.path, 'large'), `${head}      - {name: a, x: "${'x'.repeat(33_600_000)}"}\n`)
    for (const file of ['directory', 'loop', 'large'])
      expect(() => readLockFile(file, dir.path), file)
        .to.throw()
        .with.property('name', 'LockFileError')
  })
})
