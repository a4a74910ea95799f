import { expect } from 'chai'
import fc from 'fast-check'
import { suggestPolicy } from 'svc-sdk/internal/policy-tools/suggest/suggest'
import { CaseRunner } from 'svc-sdk/internal/policy-tools/test/run-case'
import { propertyRuns } from '../../../support/property-runs.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { base, generatedCalls, loadPolicyText, policyPairs } from '../../policy/generated-policies.js'
import { recordsOf } from './recorded.js'

type LoadedPolicy = NonNullable<Awaited<ReturnType<typeof loadPolicyText>>>

describe('svc policy suggest', () => {
  const names = [
    'get',
    '*',
    'g*',
    '**',
    '* ',
    'a*b*',
    'x#y',
    'k: v',
    '&a',
    '!b',
    '- c',
    '"q"',
    "'",
    '?',
    '[x]',
    '{y}',
    '| z',
    '%',
    '~',
  ]
  for (const [row, [what, entitlements]] of (
    [
      ['open', 'open'],
      [
        'a list with a star',
        { default_plan: 'p', plans: { p: {} }, tenants: { acme: { plan: 'p', allowlist: ['a/*'] } } },
      ],
      [
        'a list with versions',
        { default_plan: 'p', plans: { p: {} }, tenants: { acme: { plan: 'p', allowlist: ['a/*@*'] } } },
      ],
    ] as const
  ).entries()) {
    // Each name is tried under one form of the list, or under all by `npm run chaos:properties`.
    const used = names.filter((_, index) => propertyRuns(1) > 1 || index % 3 === row)

    it(`suggests what was used and nothing else, whatever the names of tools have: ${what}`, async () => {
      using folder = new TemporaryDir()
      const place = { baseDir: folder.path, env: {} }
      const text = JSON.stringify({ ...base, entitlements })
      const call = {
        server: 'a',
        kind: 'tool',
        version: '1',
        args: {},
        tenant: 'acme',
        roles: [],
        key: null,
      }
      let judged = 0
      for (const name of used) {
        const records = await recordsOf(text, [{ ...call, name }] as never)
        if (records.length === 0) continue
        const narrow = await suggested(folder.path, text, records).catch((error: unknown) => {
          // A call that was refused teaches nothing.
          if (!String(error).includes('no call can be learned from')) throw error
        })
        if (narrow === undefined) continue
        judged++
        await using now = await CaseRunner.start({ ...place, applied: () => undefined, policy: narrow })
        for (const other of names) {
          const subject = { kind: 'tool', server: 'a', name: other, version: '1' } as const
          const { decision } = await now
            .judge({
              line: undefined,
              subject,
              args: {},
              idempotencyKey: null,
              headers: {},
              caller: { identity: { tenant: 'acme', roles: [], user: 'u' } },
              at: { after: 3_600_000 },
              times: 1,
              expect: 'allow',
              reason: undefined,
              answers: {},
            })
            .catch(() => ({ decision: 'deny' }))
          expect([name, other, decision]).to.deep.equal([name, other, other === name ? 'allow' : 'deny'])
        }
      }
      expect(judged).to.be.above(used.length / 2)
    })
  }

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
        const narrow = await suggested(folder.path, text, records)
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
            answers: {},
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
      { numRuns: propertyRuns(15), seed: Number(process.env['SVC_PROPERTY_SEED'] ?? 26), endOnFailure: true },
    )
    expect(counts.policies).to.be.above(propertyRuns(2))
    expect(counts.lost).to.be.above(propertyRuns(2))
  })
})

/** The policy that is suggested for these records, as it loads. */
async function suggested(
  baseDir: string,
  text: string,
  records: Awaited<ReturnType<typeof recordsOf>>,
): Promise<LoadedPolicy> {
  const load = async (yaml: string): Promise<LoadedPolicy> => {
    const loaded = await loadPolicyText(baseDir, yaml)
    if (loaded === undefined) throw new Error(`does not load: ${yaml}`)
    return loaded
  }
  const policy = await load(text)
  let narrow = policy
  await suggestPolicy({
    policy,
    text,
    load: async (yaml) => {
      narrow = await load(yaml)
      return narrow
    },
    records: () => records,
    place: { baseDir, env: {} },
    from: undefined,
    headroom: 3,
    minDays: 0,
  })
  return narrow
}
