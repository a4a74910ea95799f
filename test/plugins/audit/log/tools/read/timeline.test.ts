import { SvcAppender } from '@svc/plugin-audit/log'
import { logStats } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { envelope, signer } from '../../writer/records.js'

describe('the timeline of logStats', () => {
  const dir = temporaryDir()

  it('contains every call, in at most sixty equal buckets without gaps', async () => {
    const start = Date.UTC(2026, 10, 21)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(86_399_999), { minLength: 1, maxLength: 30 }), async (offsets) => {
        const path = `${dir.path}/${Math.random().toString(36).slice(2)}`
        const appender = new SvcAppender({ config: { dir: path, retentionDays: 9999 }, signer })
        await Promise.all(
          offsets.map((offset, index) =>
            appender.append(
              envelope({
                ts: new Date(start + offset).toISOString(),
                policy: { decision: index % 3 === 0 ? 'deny' : 'allow', retention: 'standard' },
              }),
            ),
          ),
        )
        await appender.close()
        const { timeline, calls, denied } = await logStats(path)
        const sum = (count: (part: (typeof timeline)[number]) => number): number =>
          timeline.reduce((total, part) => total + count(part), 0)
        expect(sum((part) => part.allowed + part.denied)).to.equal(calls)
        expect(sum((part) => part.denied)).to.equal(denied)
        expect(timeline.length).to.be.within(1, 60)
        const starts = timeline.map(({ from }) => Date.parse(from))
        const steps = new Set(starts.slice(1).map((ms, index) => ms - (starts[index] ?? 0)))
        expect(steps.size).to.be.at.most(1)
        expect(Date.parse(timeline[0]?.from ?? '')).to.be.at.most(start + Math.min(...offsets))
      }),
      { numRuns: 15 },
    )
  })

  it('is empty for an empty log', async () => {
    expect((await logStats(dir.path)).timeline).to.deep.equal([])
  })
})
