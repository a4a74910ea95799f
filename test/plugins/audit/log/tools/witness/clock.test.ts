import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseWitnessKey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { type RunningWitness, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { append } from '../../seal/rig.js'
import { appenderIn, DAY, fixedClock, signer } from '../../writer/records.js'
import { witnesses } from './rig.js'

const HOUR = 3_600_000
const DAY_MS = 24 * HOUR
const keys = [verifierFromPublicKey(signer.publicKey)]

describe('the time of witnesses', () => {
  const dir = temporaryDir()
  const start = witnesses(dir)
  const log = () => join(dir.path, 'log')
  /** The right time. */
  const time = fixedClock()
  beforeEach(() => {
    time.ms = Date.now() - 3 * DAY_MS
  })

  /** A writer whose clock is `aheadMs` ahead seals a record of `day`. */
  async function write(
    by: readonly RunningWitness[],
    aheadMs: number,
    { day = DAY, retentionDays = 30 } = {},
  ): Promise<void> {
    const clock = { now: () => time.ms + aheadMs, monotonic: () => time.ms }
    const list = by.map(({ url, vkey: key }) => ({ url, key }))
    // The witnesses trust the key.
    const origin = 'audit.example.com/prod'
    const appender = appenderIn(log(), { clock, config: { witnesses: list, origin, retentionDays } })
    await append(appender, 1, day)
    await appender.close()
    time.ms += 10_000
  }

  describe('shows on which side of a step the clock was wrong', () => {
    const setBacks = async (by: readonly RunningWitness[]) => {
      const policy = { keys: by.map(({ vkey }) => parseWitnessKey(vkey)) }
      const report = await verifyLog(log(), { keys, ...(by.length > 0 && { witnesses: policy }) })
      expect(report.verdict).to.equal('intact')
      return report.clockSetBacks.map(({ before, after }) => [before, after])
    }

    it('if it is set back from the right time', async () => {
      const by = [await start('a', { clock: time })]
      await write(by, 0)
      await write(by, -2 * DAY_MS)
      await write(by, -2 * DAY_MS)
      expect(await setBacks(by)).to.deep.equal([['agrees', 'behind']])
    })

    it('if it is set back to the right time', async () => {
      const by = [await start('a', { clock: time })]
      await write(by, 2 * DAY_MS)
      await write(by, 0)
      expect(await setBacks(by)).to.deep.equal([['ahead', 'agrees']])
    })

    it('but not without a witness that was asked or given', async () => {
      const by = [await start('a', { clock: time })]
      await write([], 0)
      await write([], -HOUR)
      await write([], -2 * HOUR)
      await write(by, 0)
      expect(await setBacks([])).to.deep.equal([
        ['unknown', 'unknown'],
        ['unknown', 'unknown'],
      ])
      expect(await setBacks(by)).to.deep.equal([
        ['unknown', 'unknown'],
        ['unknown', 'agrees'],
      ])
    })

    it('but does not count a correction of a minute as a step', async () => {
      await write([], 0)
      await write([], -60_000)
      expect(await setBacks([])).to.deep.equal([])
    })
  })

  for (const [what, aheadMs, isRemoved] of [
    ['ends the suspension of removal after a long stop', 0, true],
    ['does not end the suspension of removal if it differs', -40 * DAY_MS, false],
  ] as const) {
    it(what, async () => {
      const old = new Date(time.ms).toISOString().slice(0, 10)
      const witness = await start('a', { clock: { now: () => time.ms + aheadMs } })
      await write([], 0, { day: old, retentionDays: 1 })
      time.ms += 40 * DAY_MS
      const today = new Date(time.ms).toISOString().slice(0, 10)
      await write([witness], 0, { day: today, retentionDays: 1 })
      await write([witness], 0, { day: today, retentionDays: 1 })
      expect(existsSync(join(log(), `audit-${old}.ndjson`))).to.equal(!isRemoved)
    })
  }
})
