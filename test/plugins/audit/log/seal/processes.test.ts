import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect } from 'chai'
import fc from 'fast-check'
import { endWithRunner } from '../../../../support/child-lifetime.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, spansOf } from '../writer/records.js'
import { sealedLog } from './sealed-log.js'

/** Appends and seals as fast as it may until it is asked to end, printing each acknowledged span. */
const writer = `
  import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
  import { writeSync } from 'node:fs'
  const [dir, name] = process.argv.slice(1)
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
  const appender = new SvcAppender({ config: { dir, retentionDays: 9999, checkpoints: { intervalMs: 2 } }, signer })
  let ending = false
  process.stdin.once('data', () => { ending = true })
  const work = async (i) => {
    for (let next = 0; !ending; next++) {
      const span_id = name + i + 'ff' + next
      await appender.append({
        ts: '${DAY}T10:00:00Z', trace_id: 'aa', span_id, tenant: 'acme', server: 's@1', tool: 't@1', status: 'ok',
        latency_ms: 1, policy: { decision: 'allow', retention: 'standard' }, key_id: signer.keyId,
      })
      writeSync(1, span_id + '\\n')
    }
  }
  await Promise.all(Array.from({ length: 4 }, (_, i) => work(i)))
  await appender.close()
  process.exit()`

class Writer {
  readonly acknowledged: string[] = []
  readonly child: ChildProcess
  readonly ended: Promise<unknown>

  constructor(dir: string, name: string) {
    this.child = endWithRunner(
      spawn(process.execPath, ['--input-type=module', '-e', writer, dir, name], {
        cwd: new URL('.', import.meta.url),
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    )
    const lines = createInterface({ input: this.child.stdout! })
    lines.on('line', (line) => this.acknowledged.push(line))
    this.ended = Promise.all([once(this.child, 'exit'), once(lines, 'close')])
  }

  async acknowledges(more: number): Promise<void> {
    const enough = this.acknowledged.length + more
    while (this.acknowledged.length < enough) await new Promise((resolve) => setImmediate(resolve))
  }
}

const today = () => new Date().toISOString().slice(0, 10)

describe('several processes that seal', () => {
  const dir = temporaryDir()
  /** Sizes of the complete checkpoints so far. */
  const heads = () => {
    const path = join(dir.path, `audit-${today()}.checkpoint`)
    if (!existsSync(path)) return []
    return [...readFileSync(path, 'utf8').matchAll(/^\S*svc-audit\S+\n(\d+)\n\S+\n\n\u2014 \S+ \S+\n/gm)].map(
      ([, size]) => Number(size),
    )
  }

  it('take over from each other after a kill, and leave an intact log', async function () {
    this.timeout(60_000)
    const moments = fc.sample(fc.integer({ min: 1, max: 120 }), 3)
    for (const [round, moment] of moments.entries()) {
      const writers = ['a', 'b', 'c'].map((name) => new Writer(dir.path, `${name}${round}0`))
      const alive = new Set(writers)
      for (const victim of writers.slice(0, 2)) {
        await victim.acknowledges(moment)
        victim.child.kill('SIGKILL')
        alive.delete(victim)
        await victim.ended
        // The remaining process continues sealing.
        const before = heads().at(-1) ?? 0
        while ((heads().at(-1) ?? 0) <= before)
          await Promise.all([...alive].map((each) => each.acknowledges(1)))
      }
      for (const each of alive) each.child.stdin?.end('end\n')
      await Promise.all(writers.map((each) => each.ended))
      const after = appenderIn(dir.path)
      await after.ready()
      await after.close()
      const spans = new Set(spansOf(dir.path))
      for (const each of writers) expect([...spans]).to.include.members(each.acknowledged)
      const { sealed } = sealedLog(dir.path)
      expect(sealed.get(DAY), `killed at ${moments}`).to.equal(spans.size)
      expect(heads()).to.deep.equal(heads().toSorted((a, b) => a - b))
    }
  })
})
