import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import type { SigningWorkerData } from '@svc/plugin-audit/internal/log/signing/signing-thread'
import { usesThreads } from '@svc/plugin-audit/internal/log/writer/config'
import {
  type AppenderOptions,
  type AuditEnvelope,
  LocalDevSigner,
  type SvcAppender,
} from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { endWithRunner } from '../../../../support/child-lifetime.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import {
  appenderIn,
  codeOf,
  DAY,
  envelope,
  linesOf,
  memoryLogger,
  signer,
  spansOf,
} from '../writer/records.js'
import type { OddWorkerData } from './odd-worker.js'

const config = { checkpoints: false, threads: 'on' } as const
// The number of records that starts the thread.
const BURST = 64

function oddWorker(how: OddWorkerData['how'], after = 0) {
  const started: Worker[] = []
  const startSigningWorker = (data: SigningWorkerData) => {
    const workerData: OddWorkerData = { ...data, how, after }
    const worker = new Worker(new URL('./odd-worker.js', import.meta.url), {
      workerData,
      transferList: [data.seed.buffer],
    })
    started.push(worker)
    return worker
  }
  return { started, startSigningWorker }
}

// Bursts within which a thread has started even on a slow machine.
const PATIENCE = 5_000

interface BurstOptions {
  readonly changesOf?: (i: number) => Partial<AuditEnvelope>
  readonly size?: number
}

/** Appends bursts until `until` holds; gives the spans in the order appended. */
async function appendUntil(
  appender: SvcAppender,
  until: () => boolean,
  { changesOf = () => ({}), size = BURST }: BurstOptions = {},
): Promise<string[]> {
  const spans: string[] = []
  for (let i = 0; i < PATIENCE; i++) {
    const records = Array.from({ length: size }, (_, i) => envelope(changesOf(i)))
    spans.push(...records.map(({ span_id }) => span_id))
    await Promise.all(records.map((record) => appender.append(record)))
    if (until()) return spans
  }
  return expect.fail('what the test waits for did not come')
}

describe('a log with a signing thread', () => {
  it('is used if there is a core more than processes that append, unless the policy says', () => {
    const rows = [
      ['auto', 1, 1, false],
      ['auto', 1, 2, true],
      ['auto', 2, 2, false],
      ['auto', 2, 3, true],
      ['on', 2, 1, true],
      ['off', 1, 8, false],
    ] as const
    for (const [threads, processes, cores, isUsed] of rows) {
      expect(usesThreads({ threads, processes }, cores), `${threads} ${processes} ${cores}`).to.equal(isUsed)
    }
  })

  const dir = temporaryDir()

  it('has every record in order with its signature, most of them from the thread', async () => {
    const appender = appenderIn(dir.path, { config })
    const spans = await appendUntil(appender, () => appender.status().signedByThread > 500)
    expect(appender.status()).to.include({ appended: spans.length, failed: 0, pendingBytes: 0 })
    await appender.close()
    expect(spansOf(dir.path)).to.deep.equal(spans)
  })

  it('signs records of any size and script, including those of agents', async () => {
    const appender = appenderIn(dir.path, { config, limits: { batchBytes: 65_536 } })
    const texts = ['Käse', '漢字', '😀'.repeat(900), 'long '.repeat(40), '"\\\u0001', 'x'.repeat(70_000)]
    const spans = await appendUntil(appender, () => appender.status().signedByThread > 100, {
      changesOf: (i) => ({ nodeId: 'node', agentRef: 'run', agentVariables: { text: texts[i % 32] ?? '' } }),
    })
    await appender.close()
    expect(spansOf(dir.path)).to.deep.equal(spans)
    expect(linesOf(dir.path, `agents/node/${DAY}/run.ndjson`)).to.deep.equal(
      linesOf(dir.path, `audit-${DAY}.ndjson`),
    )
  })

  it('is written to the last record when it is closed in the middle of a batch', async () => {
    const appender = appenderIn(dir.path, { config })
    await appendUntil(appender, () => appender.status().signedByThread > 0)
    const before = spansOf(dir.path).length
    const appended = Array.from({ length: 300 }, () => appender.append(envelope()))
    await appender.close()
    await Promise.all(appended)
    expect(spansOf(dir.path)).to.have.length(before + 300)
    expect(await codeOf(appender.append(envelope()))).to.equal('closed')
  })

  it('ends its thread when it closes', async () => {
    const { started, startSigningWorker } = oddWorker('hangs', Number.POSITIVE_INFINITY)
    const appender = appenderIn(dir.path, { config, startSigningWorker })
    await appendUntil(appender, () => appender.status().signedByThread > 0)
    await appender.close()
    expect(started.map(({ threadId }) => threadId)).to.deep.equal([-1])
  })

  it('does not keep a process alive that never closes it', async () => {
    const program = `
      import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
      const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
      const config = { dir: process.argv[1], retentionDays: 30, checkpoints: false, threads: 'on' }
      const log = new SvcAppender({ config, signer })
      const record = ${JSON.stringify(envelope())}
      for (let burst = 0; log.status().signedByThread === 0; burst++) {
        if (burst === ${PATIENCE}) throw new Error('no thread signs')
        await Promise.all(Array.from({ length: 64 }, () => log.append(record)))
      }`
    const running = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, dir.path])
    endWithRunner(running.child)
    await running
    expect(readdirSync(dir.path).filter((name) => name.endsWith('.ndjson'))).to.have.length(1)
  })

  it('starts no thread for single records, or if it is off', async () => {
    const { started, startSigningWorker } = oddWorker('dies')
    const one = appenderIn(dir.path, { config, startSigningWorker })
    for (let i = 0; i < BURST; i++) await one.append(envelope())
    await one.close()
    const off = appenderIn(dir.path, { config: { ...config, threads: 'off' }, startSigningWorker })
    await appendUntil(off, () => true)
    await off.close()
    expect(started).to.have.length(0)
    expect(spansOf(dir.path)).to.have.length(2 * BURST)
  })

  it('starts its thread after many records, even if few wait at once', async () => {
    await using appender = appenderIn(dir.path, { config })
    await appendUntil(appender, () => appender.status().signedByThread > 0, { size: 6 })
  })

  it('limits pending bytes', async () => {
    const appender = appenderIn(dir.path, { config, limits: { maxPendingBytes: 100_000 } })
    await appendUntil(appender, () => appender.status().signedByThread > 0)
    const before = spansOf(dir.path).length
    const ends = Array.from({ length: 1_000 }, () => codeOf(appender.append(envelope())))
    expect(appender.status().pendingBytes).to.be.within(1, 100_000)
    const codes = await Promise.all(ends)
    expect(new Set(codes)).to.deep.equal(new Set(['resolved', 'backpressure']))
    const resolved = codes.filter((code) => code === 'resolved').length
    expect(appender.status()).to.include({ pendingBytes: 0, failed: 1_000 - resolved })
    await appender.close()
    expect(spansOf(dir.path)).to.have.length(before + resolved)
  })

  it('gives the thread the key and wipes its own copy', async () => {
    const given: Uint8Array[] = []
    const watched = watchedSigner(() => {
      const seed = signer.keyForThread()
      given.push(seed)
      return seed
    })
    const appender = appenderIn(dir.path, { config, signer: watched })
    await appendUntil(appender, () => appender.status().signedByThread > 0)
    await appender.close()
    expect(given).to.deep.equal([new Uint8Array(32)])
  })
})

/** The tests' signer with another way of giving its key. */
function watchedSigner(keyForThread: () => Uint8Array) {
  return {
    keyId: signer.keyId,
    publicKey: signer.publicKey,
    sign: (data: Uint8Array) => signer.sign(data),
    verify: (data: Uint8Array, sig: Uint8Array) => signer.verify(data, sig),
    keyForThread,
  }
}

describe('a log whose signing thread fails', () => {
  const dir = temporaryDir()

  /** Runs bursts until the thread is abandoned, and some more; checks that nothing is missing. */
  async function goesOn(options: Partial<Omit<AppenderOptions, 'config'>>) {
    const logger = memoryLogger()
    const appender = appenderIn(dir.path, { config, logger, ...options })
    const isGone = () => logger.entries.length > 0
    const spans = await appendUntil(appender, isGone)
    spans.push(...(await appendUntil(appender, isGone)))
    expect(appender.status()).to.include({
      writable: true,
      appended: spans.length,
      failed: 0,
      pendingBytes: 0,
    })
    await appender.close()
    expect(spansOf(dir.path)).to.deep.equal(spans)
    expect(logger.entries.map(({ level, message }) => `${level}: ${message}`)).to.deep.equal([
      'error: the signing thread has stopped; records are signed on the event loop',
    ])
    return logger.entries[0]?.fields['err'] as Error
  }

  for (const after of [0, 1, 40, 200]) {
    it(`loses no record when the thread dies in a batch, after ${after} signatures`, async () => {
      const error = await goesOn(oddWorker('dies', after))
      expect(error.message).to.equal('it ended by itself, code 3')
    })
  }

  it('loses no record when the thread throws in a batch', async () => {
    expect((await goesOn(oddWorker('throws', 20))).message).to.equal('the thread has an error')
  })

  it('loses no record when the thread cannot start', async () => {
    expect((await goesOn(oddWorker('fails-to-start'))).message).to.equal('no memory for a thread')
  })

  it('loses no record if threads are forbidden', async () => {
    const startSigningWorker = () => {
      throw new Error('Access to this API has been restricted')
    }
    expect((await goesOn({ startSigningWorker })).message).to.match(/restricted/)
  })

  it('loses no record when the signer refuses its key', async () => {
    const refusing = watchedSigner(() => {
      throw new Error('not today')
    })
    expect((await goesOn({ signer: refusing })).message).to.equal('not today')
  })

  const wrong = /the key that the signer gave for the thread is not its own/

  it('stops a thread that has another key', async () => {
    expect((await goesOn(oddWorker('has-another-key'))).message).to.match(wrong)
  })

  it('stops a thread whose signer gives another key', async () => {
    const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(8))
    expect((await goesOn({ signer: watchedSigner(() => other.keyForThread()) })).message).to.match(wrong)
  })

  it('never waits for a thread that hangs, and discards its late signatures', async () => {
    const { started, startSigningWorker } = oddWorker('hangs', 30)
    const appender = appenderIn(dir.path, { config, startSigningWorker })
    const spans = await appendUntil(appender, () => started.length === 1)
    let hangs = false
    started[0]?.on('message', (message) => {
      if (message === 'hangs') hangs = true
    })
    spans.push(...(await appendUntil(appender, () => hangs)))
    // Fewer if the writer did not wait for one that the thread was slow with.
    const { signedByThread } = appender.status()
    expect(signedByThread).to.be.within(1, 30)
    for (let i = 0; i < 10; i++) spans.push(...(await appendUntil(appender, () => true)))
    expect(appender.status()).to.include({ signedByThread, failed: 0 })
    await appender.close()
    expect(spansOf(dir.path)).to.deep.equal(spans)
  })

  it('rejects the records of a batch that the signer fails to sign, reports it, and continues', async () => {
    let failing = true
    const moody = {
      ...watchedSigner(() => signer.keyForThread()),
      sign: (data: Uint8Array) => (failing ? expect.fail('no entropy') : signer.sign(data)),
    }
    const appender = appenderIn(dir.path, { config: { ...config, threads: 'off' }, signer: moody })
    const ends = await Promise.all([codeOf(appender.append(envelope())), codeOf(appender.append(envelope()))])
    expect(ends).to.deep.equal(['signer_failed', 'signer_failed'])
    expect(appender.status()).to.include({ writable: false, failed: 2, pendingBytes: 0 })
    failing = false
    await appender.append(envelope())
    expect(appender.status()).to.include({ writable: true, appended: 1 })
    await appender.close()
    expect(spansOf(dir.path)).to.have.length(1)
  })
})
