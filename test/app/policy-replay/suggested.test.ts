import { expect } from 'chai'
import fc from 'fast-check'
import { suggestPolicy } from 'svc-sdk/internal/policy-suggest/suggest'
import { CaseRunner } from 'svc-sdk/internal/policy-test/run-case'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { generatedCalls, loadPolicyText, policyPairs } from '../policy/generated-policies.js'
import { recordsOf } from './recorded.js'

describe('svc policy suggest', () => {
  it('only narrows, and keeps what was used, by calls that the stages of both policies judge', async () => {
    using folder = new TemporaryDir()
    const place = { baseDir: folder.path, env: {} }
    const counts = { policies: 0, judged: 0, lost: 0 }
    await fc.assert(
      fc.asyncProperty(policyPairs, generatedCalls, generatedCalls, async ([text = ''], used, others) => {
        const policy = await loadPolicyText(folder.path, text)
        if (policy === undefined) return
        const records = await recordsOf(text, used)
        const isUsed = records.some(({ sent, findings = [] }) => sent !== 'no' && findings.length === 0)
        if (!isUsed) return
        let narrow = policy
        await suggestPolicy({
          policy,
          text,
          async load(suggested) {
            const loaded = await loadPolicyText(folder.path, suggested)
            if (loaded === undefined) throw new Error(`does not load: ${suggested}`)
            narrow = loaded
            return loaded
          },
          records: () => records,
          place,
          from: undefined,
          headroom: 3,
          minDays: 0,
        })
        counts.policies++
        const run = { ...place, applied: () => undefined }
        await using old = await CaseRunner.start({ ...run, policy })
        await using now = await CaseRunner.start({ ...run, policy: narrow })
        for (const [index, { server, name, kind, version, args, tenant, roles, key }] of others.entries()) {
          const call = {
            line: undefined,
            subject: { kind, server, name, version } as const,
            args,
            idempotencyKey: key === null ? null : `${key}${index}`,
            headers: {},
            caller:
              tenant === undefined ? undefined : { identity: { tenant, roles, user: `caller-${index}` } },
            at: { after: 3_600_000 },
            times: 1,
            expect: 'allow' as const,
            reason: undefined,
          }
          counts.judged++
          const [was, is] = [(await old.judge(call)).decision, (await now.judge(call)).decision]
          if (was === is) continue
          counts.lost++
          expect(is, `${JSON.stringify(call)}: ${was} -> ${is}\n${text}`).to.equal(
            was === 'escalate' ? 'deny' : is,
          )
          expect(was, `${JSON.stringify(call)}: ${was} -> ${is}\n${text}`).to.not.equal('deny')
        }
      }),
      { numRuns: propertyRuns(30), seed: Number(process.env['SVC_PROPERTY_SEED'] ?? 26), endOnFailure: true },
    )
    expect(counts.policies).to.be.above(propertyRuns(5))
    expect(counts.lost).to.be.above(propertyRuns(5))
  })
})
