import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bind, tokens } from '@svc/core'
import { MemoryQuotaAdapter, quotaAdapters, quotasPlugin } from '@svc/plugin-quotas'
import { expect } from 'chai'
import { createStage } from 'svc-sdk/testing'
import { makeContext } from '../../support/context.js'
import { countOne } from './rig.js'

function mistakes(section: object): string[] {
  const { error } = quotasPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

describe('quotas: configuration', () => {
  it('is required, and so is an adapter where code binds none', () => {
    expect(quotasPlugin.presence).to.equal('required')
    const { message } = quotasPlugin.check?.(quotasPlugin.schema.parse({}), {}, () => false)[0] ?? {}
    expect(message).to.match(/^is missing; accepted is memory, lmdb, redis/)
  })

  it('takes memory, a name, and in code an adapter', () => {
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
    it(`takes ${redisUrl} for redis`, () => {
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

  it('wants the URL of redis where, and only where, redis is wanted', () => {
    expect(mistakes({ adapter: 'redis' })).to.deep.equal(['redisUrl: is required by the adapter redis'])
    expect(mistakes({ adapter: 'lmdb', redisUrl: 'redis://h', redis: {} })).to.deep.equal([
      'redisUrl: is for the adapter redis only',
      'redis: is for the adapter redis only',
    ])
  })

  it('takes a cluster or a sentinel, and further nodes of them', () => {
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

  it('takes a directory for lmdb alone', () => {
    expect(mistakes({ adapter: 'lmdb', dir: 'counts' })).to.deep.equal([])
    expect(mistakes({ adapter: 'memory', dir: 'counts' })).to.deep.equal([
      'dir: is for the adapter lmdb only',
    ])
  })

  for (const timeoutMs of [0, -1, 1.5, 60_001, '1000']) {
    it(`refuses ${JSON.stringify(timeoutMs)} as a time to wait for the store`, () => {
      expect(mistakes({ adapter: 'memory', timeoutMs })).to.have.lengthOf(1)
    })
  }

  it('refuses a failure mode that there will never be, and unknown keys', () => {
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
    async close() {
      this.closed++
    }
  }

  async function use(section: object, context = makeContext()) {
    const stage = createStage(quotasPlugin, section, context)
    await stage.start?.(new AbortController().signal)
    await countOne(stage)
    await stage.stop?.()
  }

  it('takes an adapter that is given in the section', async () => {
    const adapter = new Named()
    await use({ adapter })
    expect(adapter.asked).to.equal(1)
  })

  it('takes what is bound, and leaves it open', async () => {
    const bound = new Named()
    const context = makeContext()
    bind(context.container, tokens.QuotaAdapter, { useValue: bound })
    await use({}, context)
    expect(bound).to.include({ asked: 1, closed: 0 })
  })

  it('takes what is registered under the name, and closes what it made', async () => {
    const made = new Named()
    const context = makeContext()
    bind(context.container, quotaAdapters, { useValue: new Map([['ours', () => made]]) })
    await use({ adapter: 'ours' }, context)
    expect(made).to.include({ asked: 1, closed: 1 })
  })

  it('fails at load for a name that nobody registered, naming those it knows', () => {
    const context = makeContext()
    bind(context.container, quotaAdapters, { useValue: new Map([['ours', () => new Named()]]) })
    const section = quotasPlugin.schema.parse({ adapter: 'theirs' })
    expect(() => createStage(quotasPlugin, section, context)).to.throw(
      'quotas.adapter: no adapter named "theirs" is registered; known are memory, lmdb, redis, ours',
    )
  })

  it('opens nothing before the start, and lets go once on stop', async () => {
    const context = makeContext()
    const stage = createStage(quotasPlugin, { adapter: 'memory' }, context)
    await stage.stop?.()
    expect(context.resources.size).to.equal(0)
    await stage.start?.(new AbortController().signal)
    expect(context.resources.size).to.equal(1)
    await stage.stop?.()
    await stage.stop?.()
    expect(context.resources.size).to.equal(0)
  })

  it('keeps lmdb in the directory that the policy names, from the policy on, else below the state', async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-quotas-'))
    try {
      const context = makeContext({ baseDir: home, stateDir: join(home, 'state') })
      await use({ adapter: 'lmdb' }, context)
      await use({ adapter: 'lmdb', dir: 'counts' }, context)
      expect(existsSync(join(home, 'state', 'quotas', 'data.mdb'))).to.equal(true)
      expect(existsSync(join(home, 'counts', 'data.mdb'))).to.equal(true)
      expect(context.resources.size).to.equal(0)
    } finally {
      rmSync(home, { recursive: true })
    }
  })

  it('loads no store that the policy does not use', () => {
    const script = `
      import { createRequire } from 'node:module'
      await import('${import.meta.resolve('@svc/plugin-quotas')}')
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /lmdb|ioredis/.test(file)).length)
      await import('${import.meta.resolve('@svc/plugin-quotas/lmdb')}')
      await import('${import.meta.resolve('@svc/plugin-quotas/redis')}')
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /lmdb|ioredis/.test(file)).length > 1)
    `
    const said = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
      encoding: 'utf8',
    })
    expect(said).to.equal('0\ntrue\n')
  })

  it('does not start with a directory that cannot be opened', async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-quotas-'))
    try {
      writeFileSync(join(home, 'quotas'), '')
      const context = makeContext({ stateDir: home })
      const [start] = await Promise.allSettled([use({ adapter: 'lmdb' }, context)])
      expect(start).to.have.nested.property('reason.message').that.includes('cannot be opened')
      expect(context.resources.size).to.equal(0)
    } finally {
      rmSync(home, { recursive: true })
    }
  })

  it('keeps the counts of the memory adapter across a reload', async () => {
    const context = makeContext()
    const section = quotasPlugin.schema.parse({ adapter: 'memory' })
    const { signal } = new AbortController()
    const old = createStage(quotasPlugin, section, context)
    await old.start?.(signal)
    expect(await countOne(old, { callsPerDay: 1 })).to.have.property('kind', 'completed')
    const next = createStage(quotasPlugin, section, context)
    await next.start?.(signal)
    await old.stop?.()
    expect(await countOne(next, { callsPerDay: 1 })).to.have.property('code', 'QUOTA_EXCEEDED')
    await next.stop?.()
  })
})
