import { type Call, callRequest, kept, verdict } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../support/call.js'
import { explain, send, sendWithHolds, served } from '../../support/stage-rig.js'
import { rulesRig } from './rig.js'

const caller = { tenant: 'acme', subject: 'u-1', roles: ['support'] }

async function judged(section: object, call: Parameters<typeof makeCall>[0] = {}): Promise<Call> {
  const { rig, stage } = await rulesRig(section)
  await using _ = rig
  return (await send(stage, { caller, server: 'billing', tool: 'refund', ...call })).call
}

const found = (call: Call) => call.findings.map(({ reason, detail, ruling }) => [reason, detail, ruling])
const names = (call: Call) => call.findings.map(({ reason }) => reason.replace('rule:', ''))

describe('the stage of rules', () => {
  const conditions: readonly (readonly [string, JsonValue, boolean, boolean])[] = [
    // The arguments, and whether `require` and `when` of `args.amount <= vars.max` have their effect.
    ['a true condition', { amount: 5 }, false, true],
    ['a false condition', { amount: 500 }, true, false],
    ['an absent argument', {}, true, true],
    ['an argument of another type', { amount: '5' }, true, true],
    ['null', { amount: null }, true, true],
    ['two members that could be read as one', { amount: 5, Amount: 500 }, true, true],
    ['arguments that are no object', [5], true, true],
  ]
  for (const [what, args, required, when] of conditions) {
    for (const effect of ['deny', 'escalate', 'report'] as const) {
      it(`gives ${effect} its effect for ${what}: require ${required}, when ${when}`, async () => {
        const source = 'args.amount <= vars.max'
        const effects = { then: effect }
        const call = await judged(
          [
            { name: 'require', require: source, ...effects },
            { name: 'when', when: source, ...effects },
          ],
          { args },
        )
        expect(names(call)).to.deep.equal([...(required ? ['require'] : []), ...(when ? ['when'] : [])])
        expect(call.findings.every(({ ruling }) => ruling === effect)).to.equal(true)
      })
    }
  }

  it('treats a condition that is not a bool as an error', async () => {
    const call = await judged([{ name: 'a', require: 'args.amount', then: 'deny' }], { args: { amount: 1 } })
    expect(found(call)).to.deep.equal([
      ['rule:a', 'the rule a does not allow it (the condition is not a bool)', 'deny'],
    ])
  })

  it('judges every rule that matches, and reports deny before escalate before report', async () => {
    const call = await judged([
      { name: 'reported', then: 'report' },
      { name: 'waits', then: 'escalate', approval_set_id: 'ops', message: 'Ask first.' },
      { name: 'other', tools: ['files/*'], then: 'deny' },
      { name: 'denied', tools: ['billing/*', 'x/*'], then: 'deny' },
    ])
    expect(names(call)).to.deep.equal(['denied', 'waits', 'reported'])
    const [, waits] = call.findings
    expect(waits).to.include({ detail: 'Ask first', stage: 'rules' })
    expect(waits?.approval).to.include({ setId: 'ops' })
    expect(waits?.approval?.digest).to.match(/^[0-9a-f]{64}$/)
  })

  it('says of a rule that escalates which values it reads and keeps', async () => {
    const rule = { name: 'a', when: 'args.order.lines[0].amount > 100', keep: ['args.currency'] }
    const call = await judged([{ ...rule, then: 'escalate' }], {
      args: { order: { lines: [{ amount: 240 }] }, currency: 'EUR' },
    })
    expect(call.findings[0]?.approval?.reads).to.deep.equal([
      ['args', 'order', 'lines', 0, 'amount'],
      ['args', 'currency'],
    ])
  })

  it('matches tools by every reading of their names, and tells them apart by nothing that a fold removes', async () => {
    const section = [{ name: 'a', tools: ['billing/refund'], then: 'deny' }]
    for (const tool of ['refund', 'REFUND', 'ｒｅｆｕｎｄ']) {
      expect(names(await judged(section, { tool })), tool).to.deep.equal(['a'])
    }
    expect(names(await judged(section, { tool: 'refunds' }))).to.deep.equal([])
  })

  it('judges conditions on the tool by every reading of its name', async () => {
    const section = [
      { name: 'named', when: "tool.name == 'refund'", then: 'deny' },
      { name: 'other', require: "tool.name != 'refund'", then: 'escalate' },
      { name: 'versioned', when: "tool.version == '2'", then: 'deny' },
      { name: 'looked-up', when: "tool['name'] == 'refund'", then: 'report' },
    ]
    const init = { kind: 'tool', method: null, server: 'billing', args: {}, idempotencyKey: null } as const
    for (const [isInPath, wanted] of [
      [true, ['named', 'versioned', 'other', 'looked-up']],
      [false, []],
    ] as const) {
      const request = callRequest({ ...init, name: 'refund@2', version: '1', isInPath })
      expect(names(await judged(section, { request })), String(isInPath)).to.deep.equal(wanted)
    }
  })

  it('reads the variables of the caller’s tenant', async () => {
    const policyVars = { max: { default: 100, tenants: { acme: 10 } } }
    const { rig, stage } = await rulesRig([{ name: 'a', require: 'args.n <= vars.max', then: 'deny' }], {
      host: { vars: policyVars },
    })
    await using _ = rig
    const at = async (tenant: string) => {
      const { call } = await send(stage, { caller: { ...caller, tenant }, args: { n: 50 } })
      return names(call)
    }
    expect([await at('acme'), await at('other'), await at('__proto__')]).to.deep.equal([['a'], [], []])
  })

  it('lets claims of callers restrict a call, and never permit it', async () => {
    const section = [
      { name: 'opens', require: "args.n < 5 || claimed.agent == 'trusted'", then: 'deny' },
      { name: 'closes', when: "claimed.agent == 'banned'", then: 'deny' },
      { name: 'also-closes', require: "!has(claimed.agent) || claimed.agent != 'banned'", then: 'deny' },
    ]
    const as = async (agentRef: string | null, n: number) =>
      names(await judged(section, { args: { n }, agent: { agentRef } }))
    // Without a claim the rule that denies a banned one has an error, which denies.
    expect(await as('trusted', 9)).to.include('opens')
    expect(await as('trusted', 1)).to.deep.equal(['closes'])
    expect(await as('banned', 1)).to.deep.equal(['closes', 'also-closes'])
  })

  it('lets annotations of servers restrict a call, and never permit it', async () => {
    const { rig, stage } = await rulesRig(
      [
        { name: 'opens', require: 'tool.annotations.readOnlyHint', then: 'deny' },
        { name: 'closes', when: 'has(tool.annotations) && !tool.annotations.readOnlyHint', then: 'deny' },
      ],
      {},
      {},
      { among: () => (reference) => !reference.includes('read'), lists: () => () => undefined },
    )
    await using _ = rig
    const at = async (tool: string) => names((await send(stage, { caller, tool })).call)
    expect([await at('read'), await at('write')]).to.deep.equal([['opens'], ['opens', 'closes']])
  })

  it('keeps single values, and says which paths were absent or withheld', async () => {
    const keep = [
      'args.amount',
      'args.note',
      'args.list',
      'args.none',
      'caller.sub',
      'vars.max',
      'args.nothing',
    ]
    const call = await judged([{ name: 'a', require: 'true', then: 'deny', keep }], {
      args: { amount: 240, note: 'x'.repeat(257), list: [1], nothing: null },
    })
    expect(call.get(kept)).to.deep.equal({
      values: { 'args.amount': 240, 'caller.sub': 'u-1', 'vars.max': 100, 'args.nothing': null },
      absent: ['args.none'],
      withheld: ['args.note', 'args.list'],
    })
  })

  it('judges rules that read the time again directly before the send', async () => {
    const { rig, stage } = await rulesRig([
      { name: 'until', require: 'call.time < timestamp("2026-01-01T00:00:30Z")', then: 'escalate' },
    ])
    await using _ = rig
    const call = makeCall({ caller })
    call.set(verdict, { mode: 'enforce', effectOf: () => 'reported' })
    const outcome = await sendWithHolds('rules', stage, call, async () => {
      rig.clock.advance(60_000)
      return (await controlOf(call).commitHolds()) ?? served
    })
    expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
  })

  it('hides tools that a rule without a condition denies from lists', async () => {
    const call = await judged([
      { name: 'never', tools: ['billing/delete_*'], then: 'deny' },
      { name: 'small', tools: ['billing/refund'], require: 'args.n < 5', then: 'deny' },
    ])
    const may = (tool: string) => call.mayUse(`mcp://billing/${tool}@1`, 'tool')
    expect([may('delete_all'), may('refund'), may('list')]).to.deep.equal([false, true, true])
    expect(call.mayRequest('mcp://billing/', 'protocol')).to.equal(true)
  })

  it('leaves the requests of the protocol alone', async () => {
    expect(
      names(await judged([{ name: 'a', then: 'deny' }], { request: { kind: 'protocol' } })),
    ).to.deep.equal([])
  })

  it('explains each rule with the values that it read', async () => {
    const { rig, stage } = await rulesRig([
      { name: 'limit', tools: ['billing/*'], require: 'args.amount <= vars.max', then: 'deny' },
      { name: 'other', tools: ['files/x'], then: 'deny' },
    ])
    await using _ = rig
    const call = makeCall({
      caller,
      server: 'billing',
      tool: 'refund',
      args: { amount: 240, text: '\u202e' },
    })
    const { lines } = await explain(stage, call)
    expect(lines).to.deep.equal([
      'limit: require args.amount <= vars.max -> false, so deny; args.amount = 240; vars.max = 100',
    ])
  })
})
