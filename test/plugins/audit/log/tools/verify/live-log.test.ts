import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { endWithRunner } from '../../../../../support/child-lifetime.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { appenderIn, fixedClock, signer } from '../../writer/records.js'

/** Runs for `days` days, a new one with each opening, which removes days older than the one before. */
const living = `
  import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
  const [dir, days] = process.argv.slice(1)
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
  for (let day = 0; day < Number(days); day++) {
    const now = () => Date.UTC(2026, 0, 1 + day, 12)
    const clock = { now, monotonic: () => performance.now() }
    const config = { dir, retentionDays: 1, checkpoints: { intervalMs: 2 } }
    // It warns of days that the other one has not sealed to their end yet.
    const logger = { debug() {}, info() {}, warn() {}, error: console.error }
    const appender = new SvcAppender({ config, signer, clock, logger })
    const append = (i) => appender.append({
      ts: new Date(now()).toISOString(), trace_id: 'aa', span_id: String(i), tenant: 'acme', server: 's@1', tool: 't@1',
      status: 'ok', latency_ms: 1, policy: { decision: 'allow', retention: 'standard' }, key_id: signer.keyId,
      nodeId: 'n', agentRef: 'r' + i % 2,
    })
    for (let i = 0; i < 5; i++) await Promise.all([append(i), append(i), append(i)])
    await appender.close()
  }`

/** Appends to the newest day and seals, until it is asked to end. */
const beside = `
  import { readdirSync } from 'node:fs'
  import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
  const [dir] = process.argv.slice(1)
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
  const config = { dir, retentionDays: 99999, checkpoints: { intervalMs: 3 } }
  const newestDay = () => readdirSync(dir).sort().findLast((name) => /^audit-.*ndjson$/.test(name))?.match(/audit-(.*).ndjson/)?.[1]
  const now = () => Date.parse((newestDay() ?? '2026-01-01') + 'T12:00Z')
  const clock = { now, monotonic: () => performance.now() }
  const logger = { debug() {}, info() {}, warn() {}, error: console.error }
  const appender = new SvcAppender({ config, signer, clock, logger })
  let ending = false
  process.stdin.once('data', () => { ending = true })
  while (!ending) {
    await new Promise(setImmediate)
    const day = newestDay()
    if (day !== undefined) await appender.append({
      ts: day + 'T10:00:00Z', trace_id: 'bb', span_id: '0', tenant: 'acme', server: 's@1', tool: 't@1',
      status: 'ok', latency_ms: 1, policy: { decision: 'allow', retention: 'standard' }, key_id: signer.keyId,
    }).catch((error) => { if (error.code !== 'day_removed') throw error })
  }
  await appender.close()
  process.exit()`

describe('verifyLog on a live log', () => {
  const children: { child: ChildProcess; gone: Promise<unknown[]> }[] = []
  /** The reports of the processes, including errors that reject no append. */
  const errors: string[] = []
  // The processes end before the directory is removed.
  afterEach(async () => {
    for (const { child, gone } of children.splice(0)) {
      child.kill('SIGKILL')
      await gone
    }
  })
  const dir = temporaryDir()
  const heads = temporaryDir()

  function start(program: string, ...args: string[]) {
    const child = endWithRunner(
      spawn(process.execPath, ['--input-type=module', '-e', program, dir.path, ...args], {
        cwd: new URL('.', import.meta.url),
        stdio: ['pipe', 'ignore', 'pipe'],
      }),
    )
    child.stderr?.on('data', (text) => errors.push(String(text)))
    const started = { child, gone: once(child, 'exit') }
    children.push(started)
    return started
  }

  /** Keeps the checkpoint of this size in a file outside the log; undefined if there is none any more. */
  function keepHead(size = 0): string | undefined {
    const files = readdirSync(dir.path).filter((name) => name.endsWith('.checkpoint'))
    const notes = files.flatMap((name) => {
      return readFileSync(join(dir.path, name), 'utf8').split(/(?<=\n)(?=log\.svc-audit)/)
    })
    const note = notes.find((text) => text.split('\n')[1] === String(size))
    if (note === undefined) return undefined
    const path = join(heads.path, 'head')
    writeFileSync(path, note)
    return path
  }

  it('reports no failure while processes append, seal and apply retention', async function () {
    this.timeout(60_000)
    const keys = [verifierFromPublicKey(signer.publicKey)]
    const other = start(beside)
    const first = start(living, '12')
    let lives = true
    const ended = first.gone.then(([code]) => {
      lives = false
      return code
    })
    let rounds = 0
    let since: string | undefined
    while (lives) {
      // Every third round continues at the head of an earlier one, which the next one replaces.
      const begun = rounds % 3 === 2 && since !== undefined ? { since } : {}
      const report = await verifyLog(dir.path, { keys, threads: 1, fast: rounds % 2 === 0, ...begun })
      expect(report.failures, `round ${rounds}`).to.deep.equal([])
      expect(report.verdict, `round ${rounds}: ${report.reason}`).to.be.oneOf(['intact', 'cannot_be_judged'])
      if (rounds % 3 === 0) since = keepHead(report.head?.size)
      expect(errors).to.deep.equal([])
      rounds++
    }
    expect(await ended).to.equal(0)
    other.child.stdin?.write('end')
    expect(await other.gone).to.deep.equal([0, null])
    const between = await verifyLog(dir.path, { keys })
    const kept = keepHead(between.head?.size) ?? ''
    expect(errors).to.deep.equal([])
    // A day that the other process was still sealing is kept until a later opening; if it missed a whole day, the
    // clock has stepped, and all are kept until it has run evenly for a week.
    const clock = fixedClock('2026-01-13T12:00:00Z')
    for (; clock.ms < Date.UTC(2026, 0, 23); clock.ms += 25 * 3_600_000) {
      await using last = appenderIn(dir.path, { clock, config: { retentionDays: 1 } })
      await last.ready()
    }
    const report = await verifyLog(dir.path, { keys })
    expect(report).to.deep.include({ verdict: 'intact', failures: [] })
    expect(report.removedDays).to.have.length(12)
    const later = await verifyLog(dir.path, { keys, since: kept })
    expect(later).to.deep.include({ verdict: 'intact', failures: [] })
    expect(later.since?.size).to.equal(between.head?.size)
    expect(later.removedDays).to.deep.equal(report.removedDays.slice(between.removedDays.length))
  })
})
