import type { Identity } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { AccessJudge, type AccessVerdict } from 'svc-sdk/internal/policy-tools/diff/access-judge'
import { policyChanges } from 'svc-sdk/internal/policy-tools/diff/diff'
import { type KnownCaller, KnownRequests, knownCallers } from 'svc-sdk/internal/policy-tools/diff/known-calls'
import { verdictChanges } from 'svc-sdk/internal/policy-tools/diff/verdict-changes'
import { CaseRunner } from 'svc-sdk/internal/policy-tools/test/run-case'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { loadPolicyText, policyPairs } from './generated-policies.js'

/** What a call may still come to: more for a smaller number. */
const strictness = { allow: 0, confirm: 1, escalate: 2, deny: 3 } as const
type Decision = keyof typeof strictness

const tools = ['get', 'drop', 'DROP', 'send'].flatMap((name) =>
  ['a', 'b'].flatMap((server) => ['1.2', '2'].map((version) => ({ server, name, version }))),
)
const argumentsOf = [
  {},
  { n: 3 },
  { n: 9 },
  { url: 'https://x.example.com' },
  { url: 'https://y.example.com', text: 'x'.repeat(40) },
]

describe('svc policy diff', () => {
  it('says that a caller may do more exactly if the live stages allow it more, and keeps the rest conditional', async () => {
    using folder = new TemporaryDir()
    const place = { baseDir: folder.path, env: {} }
    const counts = { pairs: 0, gains: 0, losses: 0, conditional: 0 }
    await fc.assert(
      fc.asyncProperty(policyPairs, async (texts) => {
        const [before, after] = [
          await loadPolicyText(folder.path, texts[0] ?? ''),
          await loadPolicyText(folder.path, texts[1] ?? ''),
        ]
        if (before === undefined || after === undefined) return
        const policies = [before, after] as const
        const judges = await AccessJudge.startBoth(policies, place)
        const [live, next] = [await Live.start(before, place), await Live.start(after, place)]
        const gaining = new Set<string>()
        for (const caller of knownCallers(policies)) {
          for (const request of new KnownRequests(policies, tools).all) {
            const [was, is] = [
              await judges[0].verdictOn(caller, request),
              await judges[1].verdictOn(caller, request),
            ]
            const effects = new Set(verdictChanges(was, is).map(({ effect }) => effect))
            if (effects.has('gain')) gaining.add(`${caller.tenant} ${caller.subject}`)
            counts.pairs++
            counts.gains += Number(effects.has('gain'))
            counts.losses += Number(effects.has('loss'))
            counts.conditional += Number(!isDefinite(was) || !isDefinite(is))
            for (const [index, args] of argumentsOf.entries()) {
              const key = index % 2 === 0 ? 'k' : null
              const [old, now] = [
                await live.decision(caller, request, args, key),
                await next.decision(caller, request, args, key),
              ]
              const what = `${caller.tenant} ${caller.subject} ${request.reference} ${JSON.stringify(args)}: ${old} -> ${now}\n${texts.join('\n')}`
              expect(possibleDecisions(was), what).to.include(old)
              expect(possibleDecisions(is), what).to.include(now)
              const gains = strictness[now] < strictness[old]
              if (isDefinite(was) && isDefinite(is)) expect(effects.has('gain'), what).to.equal(gains)
              else if (gains)
                expect(['gain', 'wider', 'unknown'] as const, what).to.satisfy((some: readonly 'gain'[]) =>
                  some.some((effect) => effects.has(effect)),
                )
            }
          }
        }
        const changes = await policyChanges(before, after, { place, tools })
        const listed = changes.flatMap(({ effect, tenant = '', subject }) =>
          effect === 'gain' ? [`${tenant} ${subject}`] : [],
        )
        expect([...gaining]).to.include.members(listed)
        expect(listed.length > 0).to.equal(gaining.size > 0)
        for (const one of [...judges, live, next]) await one[Symbol.asyncDispose]()
      }),
      { numRuns: propertyRuns(8), seed: 26 },
    )
    expect(counts.gains).to.be.above(propertyRuns(10))
    expect(counts.losses).to.be.above(propertyRuns(10))
    expect(counts.conditional).to.be.above(propertyRuns(10))
  })
})

function isDefinite({ conditions }: AccessVerdict): boolean {
  return conditions.every(({ isPresumedAbsent }) => isPresumedAbsent)
}

function possibleDecisions({ decision, conditions }: AccessVerdict): string[] {
  return [decision, ...conditions.flatMap((one) => (one.isPresumedAbsent ? [] : [one.decision as string]))]
}

/** The stages of a policy, as `svc policy test` runs them. */
class Live implements AsyncDisposable {
  #calls = 0

  private constructor(readonly runner: CaseRunner) {}

  static async start(
    policy: Parameters<typeof CaseRunner.start>[0]['policy'],
    place: { baseDir: string; env: object },
  ) {
    return new Live(
      await CaseRunner.start({ policy, baseDir: place.baseDir, env: {}, applied: () => undefined }),
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.runner[Symbol.asyncDispose]()
  }

  async decision(
    { trusted }: KnownCaller,
    { kind, server, name, version }: KnownRequests['all'][number],
    args: object,
    key: string | null,
  ): Promise<Decision> {
    this.#calls++
    const { decision } = await this.runner.judge({
      line: undefined,
      subject: { kind, server, name, version } as never,
      args: args as never,
      idempotencyKey: key === null ? null : `${key}${this.#calls}`,
      headers: {},
      caller: trusted && { identity: this.#identityOf(trusted.identity) },
      at: undefined,
      times: 1,
      expect: 'allow',
      reason: undefined,
      answers: {},
    })
    if (!Object.hasOwn(strictness, decision)) throw new Error(`the stages decide ${decision}`)
    return decision as Decision
  }

  /** One principal has at most 20 pending escalations, so that each call has a user of its own. */
  #identityOf({ tenant, roles }: Identity): { tenant: string; roles: readonly string[]; user: string } {
    return { tenant, roles, user: `caller-${this.#calls}` }
  }
}
