import { limits, type Outcome, type PolicyChange, type Stage } from '@svc/core'
import { parseReference } from '@svc/core/match'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { expect } from 'chai'
import fc from 'fast-check'
import { makeCall } from '../../support/call.js'
import { propertyRuns } from '../../support/property-runs.js'
import { served } from '../../support/stage-rig.js'
import { type Caller, callBy, createEntitlements } from './rig.js'

type Section = ReturnType<typeof entitlementsPlugin.schema.parse>

const parse = (section: unknown): Section => entitlementsPlugin.schema.parse(section)
const servers = ['a', 'b']
const compare = (before: Section, after: Section): readonly PolicyChange[] =>
  entitlementsPlugin.compare?.(before, after, { servers, reasonsDiffer: false, denylistsMayPass: false }) ??
  []

const acme = (tenant: object, plan: object = {}): Section =>
  parse({ default_plan: 'p', plans: { p: plan }, tenants: { acme: { plan: 'p', allowlist: [], ...tenant } } })

describe('the comparison of two entitlements', () => {
  for (const [title, before, after, expected] of [
    [
      'nothing for another spelling of the same language',
      { allowlist: ['a/*'] },
      { allowlist: ['a/*@*', 'a/x'] },
      [],
    ],
    [
      'nothing for an entry that a denylist covers',
      { denylist: ['a/*'] },
      { allowlist: ['a/x'], denylist: ['a/*'] },
      [],
    ],
    [
      'what the tenant gains',
      {},
      { allowlist: ['b/x'] },
      ['gain every caller gains b/x: mcp://b/x@y', 'gain every caller gains the lists of server b'],
    ],
    [
      'what a role loses',
      { roles: { r: { allowlist: ['a/x'] } } },
      {},
      ['loss role r loses a/x: mcp://a/x@y', 'loss role r loses the lists of server a'],
    ],
    [
      'what a shorter denylist gives',
      { allowlist: ['a/*'], denylist: ['drop'] },
      { allowlist: ['a/*'] },
      ['gain every caller gains drop: mcp://a/drop@x'],
    ],
    [
      'what only two roles together gain',
      { roles: { r: { allowlist: ['a/x'] }, s: { denylist: ['x'] } } },
      { roles: { r: { allowlist: ['a/x'] }, s: {} } },
      ['gain role r with role s gains x: mcp://a/x@y'],
    ],
    [
      'what a role loses that overrides its tenant',
      { allowlist: ['a/*'], roles: { r: { allowlist: ['a/x'] } } },
      { allowlist: ['a/*'], roles: { r: { allowlist: ['a/x'], override: true } } },
      ['loss role r loses a/*: mcp://a/y@y'],
    ],
    [
      'a lower limit',
      { per_tool: { 'a/x': { rate_per_sec: 5 } } },
      { per_tool: { 'a/x': { rate_per_sec: 2 } } },
      ['narrower a/x 5/s -> 2/s'],
    ],
    [
      'a limit that a more specific one raises',
      { per_tool: { 'a/*': { calls_per_day: 5 } } },
      { per_tool: { 'a/*': { calls_per_day: 5 }, 'a/x': { calls_per_day: 9 } } },
      ['wider a/x 5/day -> 9/day'],
    ],
  ] as const) {
    it(`shows ${title}`, () => {
      const changes = compare(acme(before), acme(after))
      expect(
        changes.map(
          ({ effect, subject, detail, example }) =>
            `${effect} ${subject} ${detail}${example === undefined ? '' : `: ${example}`}`,
        ),
      ).to.deep.equal(expected)
    })
  }

  it('says that it cannot compare names whose fold depends on neighbours', () => {
    const [change] = compare(
      acme({ denylist: ['e\u0327\u0301x'], allowlist: ['*'] }),
      acme({ allowlist: ['*'] }),
    )
    expect(change?.effect).to.equal('unknown')
  })

  const pattern = fc.constantFrom(
    'a/*',
    'b/*',
    'a/x',
    'a/x*',
    '*x',
    'x@1',
    'a/*@1',
    'b/X',
    '*',
    'mcp://*x*',
    'a/prompts/*',
    'a/y.*',
  )
  const patterns = fc.uniqueArray(pattern, { maxLength: 3 })
  const limit = fc.constantFrom({ calls_per_day: 0 }, { calls_per_day: 5 }, { rate_per_sec: 2 })
  const perTool = fc.dictionary(fc.constantFrom('a/*', 'a/x', 'x@1', '*'), limit, { maxKeys: 2 })
  const lists = {
    denylist: fc.option(patterns, { nil: undefined }),
    per_tool: fc.option(perTool, { nil: undefined }),
  }
  const principal = fc.record({
    ...lists,
    allowlist: fc.option(patterns, { nil: undefined }),
    override: fc.option(fc.boolean(), { nil: undefined }),
  })
  const principals = (...ids: string[]) =>
    fc.dictionary(fc.constantFrom(...ids), principal, { maxKeys: ids.length })
  const tenant = {
    allowlist: patterns,
    ...lists,
    users: principals('u', '*', 'v*'),
    user_ids: principals('i'),
    roles: principals('r', 's', 't', 't*'),
    agents: principals('g', 'g*'),
    agent_nodes: principals('n', 'm'),
  }
  const withoutUndefined = (value: object): unknown => JSON.parse(JSON.stringify(value))
  const plan = fc.record({ allowlist: patterns, denylist: lists.denylist })

  /** A section, and another one in which some parts are drawn again. */
  const pairs = fc
    .record({
      plan,
      tenant: fc.record(tenant),
      otherPlan: plan,
      otherTenant: fc.record(tenant),
      changed: fc.subarray([...Object.keys(tenant), 'plan'], { minLength: 1, maxLength: 2 }),
      isListed: fc.boolean(),
    })
    .map(({ plan, tenant, otherPlan, otherTenant, changed, isListed }) => {
      const section = (p: object, t: object, listed = true) =>
        parse(
          withoutUndefined({
            default_plan: 'p',
            plans: { p },
            tenants: listed ? { acme: { plan: 'p', ...t } } : {},
          }),
        )
      const redrawn = Object.fromEntries(Object.entries(otherTenant).filter(([key]) => changed.includes(key)))
      const before = section(plan, tenant)
      return {
        before,
        after: section(
          changed.includes('plan') ? otherPlan : plan,
          { ...tenant, ...redrawn },
          isListed || changed.length > 1,
        ),
      }
    })

  const caller = fc.record({
    user: fc.option(fc.constantFrom('u', 'U', 'v', 'w'), { nil: undefined }),
    userId: fc.option(fc.constantFrom('i', 'I'), { nil: undefined }),
    clientId: fc.option(fc.constantFrom('g', 'G', 'gg'), { nil: undefined }),
    nodeId: fc.option(fc.constantFrom('n', 'm'), { nil: undefined }),
    roles: fc.subarray(['r', 's', 't', 'tt']),
  })
  const node = fc.option(fc.constantFrom('n', 'm'), { nil: null })
  const name = fc.constantFrom('x', 'X', 'xx', 'y', 'y.', 'y.z', 'ｘ', 'x\u200b', 'drop')
  const call = fc.record({
    tenant: fc.constantFrom('acme', 'acme', 'ACME', 'globex'),
    caller,
    node,
    reference: fc
      .tuple(
        fc.constantFrom(...servers, 'c'),
        fc.constantFrom('', '', 'prompts/'),
        name,
        fc.constantFrom('1', '2'),
      )
      .map(([server, kind, tool, version]) => `mcp://${server}/${kind}${tool}@${version}`),
  })
  const calls = fc.array(call, { minLength: 200, maxLength: 200 })

  /** A daily limit of 0 allows nothing. */
  async function isAllowed(stage: Stage, called: Called): Promise<boolean> {
    const { findings, limits } = await judged(stage, called)
    return findings.length === 0 && limits.every(({ callsPerDay }) => callsPerDay !== 0)
  }

  async function isListed(stage: Stage, called: Called): Promise<boolean> {
    return (await judged(stage, called)).findings.length === 0
  }

  async function judged(stage: Stage, { tenant, caller, node, reference }: Called) {
    const parts = parseReference(reference)
    const name = 'tool' in parts ? parts.tool : 'prompt' in parts ? parts.prompt : parts.resource
    const kind = 'tool' in parts ? 'tool' : 'prompt' in parts ? 'prompt' : 'resource'
    const { server, version } = parts
    const request = { kind, server, name, version, reference, readings: [reference] } as const
    const call = makeCall(
      callBy(
        { ...(withoutUndefined(caller) as Caller), tenant, ...(node === null ? {} : { claimedNode: node }) },
        { request },
      ),
    )
    const outcome: Outcome = await stage.handle(call, () => served)
    expect(outcome).to.equal(served)
    return { findings: call.findings, limits: call.need(limits) }
  }

  it('is refuted by no call: who gains is listed, and so is who loses', async () => {
    let count = 0
    await fc.assert(
      fc.asyncProperty(pairs, calls, async ({ before, after }, sample) => {
        const effects = new Set(compare(before, after).map(({ effect }) => effect))
        const [old, now] = [createEntitlements(before), createEntitlements(after)]
        const nobodyGains = !(effects.has('gain') || effects.has('wider') || effects.has('unknown'))
        const nobodyLoses = !(effects.has('loss') || effects.has('narrower') || effects.has('unknown'))
        if (!nobodyGains && !nobodyLoses) return
        for (const one of sample) {
          count++
          const [was, is] = [await isAllowed(old, one), await isAllowed(now, one)]
          if (nobodyGains) expect(!was && is, `gains ${JSON.stringify(one)}`).to.equal(false)
          if (nobodyLoses) expect(was && !is, `loses ${JSON.stringify(one)}`).to.equal(false)
        }
      }),
      { numRuns: propertyRuns(15), seed: 26 },
    )
    expect(count).to.be.above(propertyRuns(500))
  })

  it('gives an example that only one of the sections allows to such a caller', async () => {
    await fc.assert(
      fc.asyncProperty(pairs, async ({ before, after }) => {
        const [old, now] = [createEntitlements(before), createEntitlements(after)]
        for (const { effect, tenant: title, subject, example } of compare(before, after)) {
          if ((effect !== 'gain' && effect !== 'loss') || example === undefined) continue
          const tenants = { 'tenant acme': 'acme', 'tenant acme, spelled otherwise': 'ACME' }
          const tenant = Object.entries(tenants).find(([name]) => name === title)?.[1] ?? 'other'
          const one = { tenant, ...callerNamed(subject), reference: example }
          const decisions = [await isListed(old, one), await isListed(now, one)]
          expect(decisions, `${subject} ${effect} ${example}`).to.deep.equal(
            effect === 'gain' ? [false, true] : [true, false],
          )
        }
      }),
      { numRuns: propertyRuns(10), seed: 27 },
    )
  })
})

interface Called {
  readonly tenant: string
  readonly caller: Partial<
    Record<'user' | 'userId' | 'clientId' | 'client' | 'nodeId', string | undefined>
  > & {
    readonly roles: string[]
  }
  readonly node: string | null
  readonly reference: string
}

/** The caller that the subject of a change describes. */
function callerNamed(subject: string): Pick<Called, 'caller' | 'node'> {
  const roles: string[] = []
  let caller: Called['caller'] = { roles }
  let node: string | null = null
  for (const part of subject === 'every caller' ? [] : subject.split(' with ')) {
    const [, kind, id = '', where] =
      /^(user id|user|role|agent|node) ([\w*]+)(?: (of any user|in the (?:token|header) only))?$/.exec(
        part,
      ) ?? []
    if (kind === 'user') caller = { ...caller, user: id }
    else if (kind === 'user id') caller = { ...caller, userId: id }
    else if (kind === 'agent' && where === 'of any user') caller = { user: 'nobody', ...caller, client: id }
    else if (kind === 'agent') caller = { ...caller, clientId: id }
    else if (kind === 'role') roles.push(id)
    else {
      if (where !== 'in the header only') caller = { ...caller, nodeId: id }
      if (where !== 'in the token only') node = id
    }
  }
  return { caller, node }
}
