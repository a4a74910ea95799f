import { expect } from 'chai'
import fc from 'fast-check'
import { policyChanges, somebodyGains } from 'svc-sdk/internal/policy-diff/diff'
import { CaseRunner } from 'svc-sdk/internal/policy-test/run-case'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { generatedCalls, loadPolicyText, policyPairs } from './generated-policies.js'

/** What a call may still come to: more for a smaller number. */
const strictness = { allow: 0, confirm: 1, escalate: 2, deny: 3 } as const

describe('svc policy diff', () => {
  it('is refuted by no call that the stages of both policies judge', async () => {
    using folder = new TemporaryDir()
    let [judged, loaded] = [0, 0]
    await fc.assert(
      fc.asyncProperty(policyPairs, generatedCalls, async ([first = '', second = ''], sample) => {
        const [before, after] = [
          await loadPolicyText(folder.path, first),
          await loadPolicyText(folder.path, second),
        ]
        if (before === undefined || after === undefined) return
        loaded++
        if (somebodyGains(policyChanges(before, after)) !== false) return
        const run = { baseDir: folder.path, env: {}, applied: () => undefined }
        await using old = await CaseRunner.start({ ...run, policy: before })
        await using now = await CaseRunner.start({ ...run, policy: after })
        for (const [index, { server, name, kind, version, args, tenant, roles, key }] of sample.entries()) {
          const call = {
            line: undefined,
            subject: { kind, server, name, version } as const,
            args,
            idempotencyKey: key === null ? null : `${key}${index}`,
            headers: {},
            // One principal has at most 20 pending escalations, so nearly each call has a caller of its own.
            caller:
              tenant === undefined && index < 20
                ? undefined
                : { identity: { tenant: tenant ?? 'demo', roles, user: `caller-${index}` } },
            at: undefined,
            times: 1,
            expect: 'allow' as const,
            reason: undefined,
            answers: {},
          }
          judged++
          const [was, is] = [(await old.judge(call)).decision, (await now.judge(call)).decision]
          expect([was, is]).to.not.include('error')
          expect(
            strictness[is as 'allow'] >= strictness[was as 'allow'],
            `${JSON.stringify(call)}: ${was} -> ${is}`,
          ).to.equal(true)
        }
      }),
      { numRuns: propertyRuns(60), seed: 26 },
    )
    expect(loaded).to.be.above(propertyRuns(30))
    expect(judged).to.be.above(propertyRuns(1_000))
  })
})
