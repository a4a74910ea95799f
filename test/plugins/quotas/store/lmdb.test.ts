import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { endWithRunner } from '../../../support/child-lifetime.js'
import { lmdbAdapter } from './adapters.js'
import { quotaAdapterSuite } from './suite.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const DAY = 86_400_000

function newDir(): string {
  return mkdtempSync(join(tmpdir(), 'svc-quotas-'))
}

quotaAdapterSuite('lmdb', async () => {
  const dir = newDir()
  const adapter = lmdbAdapter(dir)
  return {
    adapter,
    async close() {
      await adapter.close()
      rmSync(dir, { recursive: true })
    },
  }
})

describe('lmdb quota adapter', () => {
  let dir: string

  beforeEach(() => {
    dir = newDir()
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('has its counts after it is opened again', async () => {
    const before = lmdbAdapter(dir)
    await before.incrDaily('t', 'a', 5, NOON)
    await before.takeToken('t', 'a', 1, 3, NOON)
    await before.close()
    const after = lmdbAdapter(dir)
    expect((await after.incrDaily('t', 'a', 5, NOON)).count).to.equal(2)
    expect((await after.takeToken('t', 'a', 1, 3, NOON)).tokens).to.equal(1)
    await after.close()
  })

  it('uses its clock when no time is given', async () => {
    let now = NOON
    const adapter = lmdbAdapter(dir, { now: () => now, monotonic: () => now })
    await adapter.takeToken('t', 'a', 1, 1)
    await adapter.incrDaily('t', 'a', 1)
    expect((await adapter.takeToken('t', 'a', 1, 1)).tokens).to.be.lessThan(0)
    expect((await adapter.incrDaily('t', 'a', 1)).count).to.equal(2)
    now += DAY
    expect((await adapter.takeToken('t', 'a', 1, 1)).tokens).to.equal(0)
    expect((await adapter.incrDaily('t', 'a', 1)).count).to.equal(1)
    await adapter.refundDaily('t', 'a')
    expect((await adapter.incrDaily('t', 'a', 1)).count).to.equal(1)
    await adapter.close()
  })

  it('counts for names of any length and any characters', async () => {
    const adapter = lmdbAdapter(dir)
    const long = 'x'.repeat(10_000)
    for (const tool of [long, `${long}y`, '\ud800', '\ud801', '\ufffd', '🦊'.repeat(199)]) {
      expect((await adapter.incrDaily('t', tool, 5, NOON)).count).to.equal(1)
      expect((await adapter.takeToken('t', tool, 1, 1, NOON)).tokens).to.equal(0)
    }
    await adapter.close()
  })

  it('is shared by several adapters in one process', async () => {
    const [one, two] = [lmdbAdapter(dir), lmdbAdapter(dir)]
    const responses = await Promise.all(
      Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? one : two).incrDaily('t', 'a', 30, NOON)),
    )
    expect(responses.filter(({ count }) => count <= 30)).to.have.lengthOf(30)
    await one.close()
    expect((await two.incrDaily('t', 'a', 30, NOON)).count).to.equal(31)
    await two.close()
  })

  describe('with several processes', () => {
    const children: ChildProcess[] = []

    afterEach(async () => {
      await Promise.all(children.splice(0).map(end))
    })

    it('allows exactly as many calls as one process does', async () => {
      const counters = await Promise.all(Array.from({ length: 4 }, () => startCounter(dir)))
      const taken = await Promise.all(counters.map((counter) => ask(counter, { calls: 400, limit: 500 })))
      expect(taken.reduce((sum, of) => sum + of.counted, 0)).to.equal(500)
      expect(taken.reduce((sum, of) => sum + of.tokens, 0)).to.equal(500)
    })

    it('works when one of them is killed during a write', async () => {
      const adapter = lmdbAdapter(dir)
      const stuck = await startCounter(dir)
      stuck.send({ stick: true })
      await once(stuck, 'message')
      const counting = adapter.incrDaily('t', 'a', 5, NOON)
      await end(stuck)
      // What the killed one had not committed was not counted.
      expect((await counting).count).to.equal(1)
      await adapter.close()
    })

    it('reports why it cannot write, and keeps its counts and the process', async () => {
      const before = lmdbAdapter(dir)
      await before.incrDaily('t', 'a', 5, NOON)
      await before.close()
      // Files of at most 256 KiB (blocks of 512 or 1024 bytes, by the shell): the disk is full early.
      const counter = await startCounter(dir, ['/bin/sh', '-c', 'ulimit -f 256; exec "$@"', 'sh'])
      const { error, counted } = await ask(counter, { fill: true })
      expect(error).to.match(/^the quota store could not be written: /)
      expect(counted).to.equal(2)
    })

    async function startCounter(dir: string, before: readonly string[] = []): Promise<ChildProcess> {
      const script = fileURLToPath(new URL('./lmdb-counter.js', import.meta.url))
      const [command = '', ...args] = [...before, process.execPath, '--conditions=svc-internal', script, dir]
      const child = endWithRunner(spawn(command, args, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] }))
      children.push(child)
      await once(child, 'message')
      return child
    }

    async function ask(child: ChildProcess, what: object) {
      const response = once(child, 'message')
      const gone = once(child, 'exit').then(([code, signal]) => {
        throw new Error(`the counter ended with ${code ?? signal}`)
      })
      child.send(what)
      const [told] = await Promise.race([response, gone])
      gone.catch(() => undefined)
      return told as { counted: number; tokens: number; error?: string }
    }

    async function end(child: ChildProcess): Promise<void> {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    }
  })
})
