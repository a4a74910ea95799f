import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { decisions, stricter } from 'svc-sdk/internal/policy-tools/judge/judge'
import { type Decided, decideOn } from 'svc-sdk/internal/policy-tools/replay/decide'
import { PolicyJudge } from 'svc-sdk/internal/policy-tools/replay/policy-judge'
import { verdictOf } from 'svc-sdk/internal/policy-tools/replay/recorded-verdict'
import { propertyRuns } from '../../../support/property-runs.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { generatedCalls, loadPolicyText, policyPairs } from '../../policy/generated-policies.js'
import { recordsOf } from './recorded.js'

function withoutKept(record: SignedEnvelope): SignedEnvelope {
  const { kept: _, ...rest } = record
  return rest
}

function contains({ least, most }: Decided, inner: Pick<Decided, 'least' | 'most'>): boolean {
  return !stricter(least, inner.least) && !stricter(inner.most, most)
}

describe('svc policy replay', () => {
  it('repeats the record under the policy in force, and agrees with a live run of a new one', async () => {
    using folder = new TemporaryDir()
    const counts = { records: 0, decided: 0, wider: 0, same: 0 }
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(policyPairs, generatedCalls, async ([first = '', second = ''], calls) => {
        const [old, now] = [
          await loadPolicyText(folder.path, first),
          await loadPolicyText(folder.path, second),
        ]
        if (old === undefined || now === undefined) return
        const [records, live] = [await recordsOf(first, calls), await recordsOf(second, calls)]
        const place = { baseDir: folder.path, env: {} }
        expect(live.length).to.equal(records.length)
        await using oldJudge = await PolicyJudge.start(old, place)
        await using nowJudge = await PolicyJudge.start(now, place)
        for (const [index, record] of records.entries()) {
          const recorded = verdictOf(record, nowJudge.later)
          const other = live[index] && verdictOf(live[index], nowJudge.later)
          if (recorded === undefined) continue
          counts.records++
          const judged = async (of: SignedEnvelope) => {
            const judgement = await oldJudge.judge(of)
            const byOld = decideOn(judgement, recorded, { judgement, isSame: true })
            const byNow = decideOn(await nowJudge.judge(of), recorded, { judgement, isSame: false })
            const alone = decideOn(await nowJudge.judge(of), recorded, undefined)
            return { byOld, byNow, alone }
          }
          const whole = await judged(record)
          const told = `${JSON.stringify(record)}\n${first}\n${second}\n${JSON.stringify(whole)}`
          expect([whole.byOld.least, whole.byOld.most], told).to.deep.equal([
            recorded.decision,
            recorded.decision,
          ])
          for (const range of [whole.byNow, whole.alone]) {
            if (other === undefined) continue
            const { decision } = other
            expect(contains(range, { least: decision, most: decision }), `${decision} ${told}`).to.equal(true)
            if (range.least === range.most) counts.decided++
            seen.add(`${recorded.decision} ${range.least}-${range.most}`)
          }
          const dropped = await judged(withoutKept(record))
          for (const which of ['byOld', 'byNow', 'alone'] as const) {
            expect(contains(dropped[which], whole[which]), `${which} ${told}`).to.equal(true)
            if (dropped[which].least !== whole[which].least || dropped[which].most !== whole[which].most)
              counts.wider++
            else counts.same++
          }
        }
      }),
      { numRuns: propertyRuns(14), endOnFailure: true, seed: Number(process.env['SVC_PROPERTY_SEED'] ?? 26) },
    )
    expect(counts.decided, JSON.stringify([counts, [...seen]])).to.be.above(counts.records)
    expect(counts.wider).to.be.above(propertyRuns(7))
    // The clients here show no forms, so that no call is confirmed.
    const live = decisions.filter((decision) => decision !== 'confirm')
    for (const decision of live) expect([...seen].some((one) => one.startsWith(decision))).to.equal(true)
  })
})
