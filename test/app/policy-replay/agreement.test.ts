import { bind, tokens } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { createPipeline } from 'svc-sdk'
import { type Decided, decideOn } from 'svc-sdk/internal/policy-replay/decide'
import { PolicyJudge } from 'svc-sdk/internal/policy-replay/policy-judge'
import { decisions, isCall, stricter, verdictOf } from 'svc-sdk/internal/policy-replay/recorded-verdict'
import { keepingLogger } from '../../support/logger.js'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { generatedCalls, loadPolicyText, policyPairs } from '../policy/generated-policies.js'

type Calls = ReturnType<typeof generatedCalls.generate>['value']

/** The records of the calls as a live pipeline with the policy makes them. */
async function recordsOf(policyYaml: string, calls: Calls): Promise<SignedEnvelope[]> {
  const records: SignedEnvelope[] = []
  const { targets: _, port: __, audit, ...sections } = JSON.parse(policyYaml)
  const { signer: ___, ...names } = audit
  const append = async (record: object) => void records.push(record as SignedEnvelope)
  const pipeline = createPipeline({
    policyObject: sections,
    audit: { ...names, append },
    configure: (container) => bind(container, tokens.Logger, { useValue: keepingLogger() }),
  })
  try {
    for (const [index, { server, name, version, args, tenant, roles, key }] of calls.entries()) {
      await pipeline.run(
        {
          server,
          tool: name,
          version,
          args,
          headers: key === null ? {} : { 'idempotency-key': `${key}${index}` },
          ...(tenant === undefined && index < 20
            ? {}
            : { identity: { tenant: tenant ?? 'demo', roles: [...roles], user: `caller-${index}` } }),
        },
        async (_call, control) => {
          const refused = await control.commitHolds()
          return refused ?? { kind: 'completed', status: 200, headers: {}, body: Buffer.from('{}') }
        },
      )
    }
  } finally {
    await pipeline.close()
  }
  return records.filter(isCall)
}

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
      { numRuns: propertyRuns(20), endOnFailure: true, seed: Number(process.env['SVC_PROPERTY_SEED'] ?? 26) },
    )
    expect(counts.decided, JSON.stringify([counts, [...seen]])).to.be.above(counts.records)
    expect(counts.wider).to.be.above(propertyRuns(10))
    for (const decision of decisions) expect([...seen].some((one) => one.startsWith(decision))).to.equal(true)
  })
})
