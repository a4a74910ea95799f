import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tokens } from '@svc/core'
import { MemoryQuotaAdapter, quotaAdapters, quotasPlugin } from '@svc/plugin-quotas'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'
import { ofEachTest } from '../../support/parts.js'
import { StageRig } from '../../support/stage-rig.js'
import { countOne } from './rig.js'

function mistakes(section: object): string[] {
  const { error } = quotasPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

describe('quotas: configuration', () => {
  it('requires an adapter if code binds none', () => {
    expect(checkSection(quotasPlugin, {})[0]).to.match(/adapter: is missing; accepted is memory, lmdb, redis/)
  })

  it('accepts memory, the name of a registered adapter, and an adapter object from code', () => {
    const adapter = new MemoryQuotaAdapter()
    expect(quotasPlugin.schema.parse({ adapter: 'memory' })).to.deep.equal({
      adapter: 'memory',
      failure_mode: 'closed',
      timeoutMs: 1000,
    })
    expect(quotasPlugin.schema.parse({ adapter: 'ours' })).to.have.property('adapter', 'ours')
    expect(quotasPlugin.schema.parse({ adapter })).to.have.property('adapter', adapter)
  })

  for (const adapter of [null, 7, '', {}, { incrDaily: () => undefined }]) {
    it(`refuses ${JSON.stringify(adapter)} as an adapter`, () => {
      expect(mistakes({ adapter })).to.have.lengthOf(1)
    })
  }

  for (const redisUrl of ['redis://h', 'rediss://u:p%40@h:6380/3', 'redis://[::1]:7000/']) {
    it(`accepts ${redisUrl} for redis`, () => {
      expect(mistakes({ adapter: 'redis', redisUrl })).to.deep.equal([])
    })
  }

  for (const redisUrl of [
    'h:6379',
    'http://h',
    'redis:///0',
    'redis://h/x',
    'redis://h/0?db=1',
    'redis://u:s3cret@/',
  ]) {
    it(`refuses ${redisUrl}, without repeating it`, () => {
      expect(mistakes({ adapter: 'redis', redisUrl })).to.deep.equal([
        'redisUrl: must be redis://[user:password@]host[:port][/db], or rediss:// for TLS',
      ])
    })
  }

  it('requires redisUrl for the adapter redis, and only for it', () => {
    expect(mistakes({ adapter: 'redis' })).to.deep.equal(['redisUrl: is required by the adapter redis'])
    expect(mistakes({ adapter: 'lmdb', redisUrl: 'redis://h', redis: {} })).to.deep.equal([
      'redisUrl: is for the adapter redis only',
      'redis: is for the adapter redis only',
    ])
  })

  it('accepts a cluster or a sentinel, with further nodes', () => {
    const at = { adapter: 'redis', redisUrl: 'redis://h' }
    expect(mistakes({ ...at, redis: { cluster: true, nodes: ['a:7000', '[::1]:7001'] } })).to.deep.equal([])
    expect(mistakes({ ...at, redis: { sentinel: 'main', nodes: ['b:26379'] } })).to.deep.equal([])
    expect(mistakes({ ...at, redis: { lease: { calls: 10 } } })).to.deep.equal([])
    expect(mistakes({ ...at, redis: { lease: { calls: 1 } } })).to.have.lengthOf(1)
    expect(mistakes({ ...at, redis: { cluster: true, sentinel: 'main' } })).to.deep.equal([
      'redis.sentinel: cannot be combined with cluster: true',
    ])
    expect(mistakes({ ...at, redis: { nodes: ['b:1'] } })).to.deep.equal([
      'redis.nodes: requires cluster or sentinel',
    ])
    expect(mistakes({ ...at, redis: { cluster: true, nodes: ['b'] } })).to.deep.equal([
      'redis.nodes.0: must be host:port',
    ])
  })

  it('accepts a directory for lmdb only', () => {
    expect(mistakes({ adapter: 'lmdb', dir: 'counts' })).to.deep.equal([])
    expect(mistakes({ adapter: 'memory', dir: 'counts' })).to.deep.equal([
      'dir: is for the adapter lmdb only',
    ])
  })

  for (const timeoutMs of [0, -1, 1.5, 60_001, '1000']) {
    it(`refuses ${JSON.stringify(timeoutMs)} as timeoutMs`, () => {
      expect(mistakes({ adapter: 'memory', timeoutMs })).to.have.lengthOf(1)
    })
  }

  it('refuses an unknown failure mode, and unknown keys', () => {
    expect(mistakes({ adapter: 'memory', failure_mode: 'maybe' })).to.have.lengthOf(1)
    expect(mistakes({ adapter: 'memory', redis_uri: '' })).to.have.lengthOf(1)
  })
})

describe('quotas: choice of the adapter', () => {
  /** Says who was asked. */
  class Named extends MemoryQuotaAdapter {
    closed = 0
    asked = 0
    override async incrDaily(tenant: string, tool: string, limit: number) {
      this.asked++
      return super.incrDaily(tenant, tool, limit)
    }
    override async close() {
      this.closed++
    }
  }

  const rig = ofEachTest(() => new StageRig())

  async function use(section: object) {
    const stage = await rig.start(quotasPlugin, section)
    await countOne(stage)
    await stage.stop?.()
  }

  it('uses an adapter in the section', async () => {
    const adapter = new Named()
    await use({ adapter })
    expect(adapter.asked).to.equal(1)
  })

  it('uses a bound adapter, and does not close it', async () => {
    const bound = new Named()
    rig.bind(tokens.QuotaAdapter, bound)
    await use({})
    expect(bound).to.include({ asked: 1, closed: 0 })
  })

  it('creates the adapter that is registered under the name, and closes it', async () => {
    const made = new Named()
    rig.bind(quotaAdapters, new Map([['ours', () => made]]))
    await use({ adapter: 'ours' })
    expect(made).to.include({ asked: 1, closed: 1 })
  })

  it('fails at load for an unregistered name, and lists the registered ones', () => {
    rig.bind(quotaAdapters, new Map([['ours', () => new Named()]]))
    const check = (adapter: string) => checkSection(quotasPlugin, { adapter }, {}, rig.context.container)
    expect(check('ours')).to.deep.equal([])
    expect(check('theirs')).to.deep.equal([
      'mistake quotas.adapter: no adapter named "theirs" is registered; known: memory, lmdb, redis, ours',
    ])
    expect(check('rediss')[0]).to.include('did you mean "redis"?')
  })

  it('opens nothing before the start, and releases its resource once on stop', async () => {
    const { resources } = rig.context
    const stage = rig.create(quotasPlugin, { adapter: 'memory' })
    await stage.stop?.()
    expect(resources.size).to.equal(0)
    await stage.start?.(new AbortController().signal)
    expect(resources.size).to.equal(1)
    await stage.stop?.()
    await stage.stop?.()
    expect(resources.size).to.equal(0)
  })

  it('stores lmdb below the state directory, or in a directory relative to the policy', async () => {
    await use({ adapter: 'lmdb' })
    await use({ adapter: 'lmdb', dir: 'counts' })
    expect(existsSync(join(rig.home, 'state', 'quotas', 'data.mdb'))).to.equal(true)
    expect(existsSync(join(rig.home, 'counts', 'data.mdb'))).to.equal(true)
    expect(rig.context.resources.size).to.equal(0)
  })

  it('loads no store that the policy does not use', () => {
    const script = `
      import { createRequire } from 'node:module'
      await import('${import.meta.resolve('@svc/plugin-quotas')}')
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /lmdb|ioredis/.test(file)).length)
      await import('${import.meta.resolve('@svc/core/redis')}')
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /lmdb|ioredis/.test(file)).length > 1)
    `
    const said = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
      encoding: 'utf8',
    })
    expect(said).to.equal('0\ntrue\n')
  })

  it('does not start with a directory that cannot be opened', async () => {
    mkdirSync(rig.context.stateDir)
    writeFileSync(join(rig.context.stateDir, 'quotas'), '')
    const [start] = await Promise.allSettled([use({ adapter: 'lmdb' })])
    expect(start).to.have.nested.property('reason.message').that.includes('cannot be opened')
    expect(rig.context.resources.size).to.equal(0)
  })

  it('keeps the counts of the memory adapter across a reload', async () => {
    const old = await rig.start(quotasPlugin, { adapter: 'memory' })
    expect(await countOne(old, { callsPerDay: 1 })).to.have.property('kind', 'completed')
    const next = await rig.start(quotasPlugin, { adapter: 'memory' })
    await old.stop?.()
    expect(await countOne(next, { callsPerDay: 1 })).to.have.property('code', 'QUOTA_EXCEEDED')
  })
})
