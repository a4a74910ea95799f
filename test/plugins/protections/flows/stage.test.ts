import { type Call, type Identity, type Outcome, type Stage, services } from '@svc/core'
import { protectionsPlugin } from '@svc/plugin-protections'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../../support/call.js'
import { StageRig, send, sendWithHolds, served } from '../../../support/stage-rig.js'

const flows = {
  labels: [{ label: 'private', tools: ['files/read'] }],
  sinks: { external: ['mail/*'] },
  deny_flow: ['private -> external', 'private -> side_effecting'],
  effect: 'deny',
}
type Caller = Partial<Identity>
const alice: Caller = { userId: 'alice', clientId: 'cli', issuer: 'i', unit: 'team' }

async function rigOf(more: object = {}): Promise<{ rig: StageRig; stage: Stage }> {
  const rig = new StageRig()
  rig.bind(services.inMemory, true)
  return { rig, stage: await rig.start(protectionsPlugin, { flows: { ...flows, ...more } }) }
}

const callOf = (caller: Caller, server: string, tool: string): Call =>
  makeCall({ caller: { tenant: 'acme', authenticated: true, roles: [], ...caller }, server, tool })

const reasonsOf = ({ findings }: Call) => findings.map(({ reason }) => reason)

async function read(stage: Stage, caller: Caller = alice): Promise<void> {
  await send(stage, callOf(caller, 'files', 'read'))
}

/** With the holds of the call, as a dispatcher sends it. */
async function sendSent(stage: Stage, call: Call): Promise<void> {
  await sendWithHolds('protections', stage, call, async () => (await controlOf(call).commitHolds()) ?? served)
}

async function isDenied(
  stage: Stage,
  caller: Caller = alice,
  server = 'mail',
  tool = 'list',
): Promise<boolean> {
  const { call } = await send(stage, callOf(caller, server, tool))
  return reasonsOf(call).includes('flow_denied')
}

describe('the protection of flows', () => {
  it('lets a label expire, and begins its time again with each response', async () => {
    const { rig, stage } = await rigOf({ for_seconds: 60 })
    await using _ = rig
    await read(stage)
    rig.clock.advance(59_000)
    expect(await isDenied(stage)).to.equal(true)
    await read(stage)
    rig.clock.advance(59_000)
    expect(await isDenied(stage)).to.equal(true)
    rig.clock.advance(2_000)
    expect(await isDenied(stage)).to.equal(false)
  })

  it('lets a label expire that callers pass on through servers, however often', async () => {
    const { rig, stage } = await rigOf({ for_seconds: 60, effect: 'report' })
    await using _ = rig
    const bob = { ...alice, userId: 'bob' }
    await read(stage)
    for (let turn = 0; turn < 3; turn++) {
      rig.clock.advance(18_000)
      for (const caller of [alice, bob]) {
        await sendSent(stage, callOf(caller, 'notes', 'write_note'))
        await send(stage, callOf(caller === alice ? bob : alice, 'notes', 'show'))
      }
      expect([await isDenied(stage, alice), await isDenied(stage, bob)]).to.deep.equal([true, true])
    }
    rig.clock.advance(7_000)
    expect([await isDenied(stage, alice), await isDenied(stage, bob)]).to.deep.equal([false, false])
  })

  it('keeps a newer label of a caller who gets an older one from a server', async () => {
    const { rig, stage } = await rigOf({ for_seconds: 60, effect: 'report' })
    await using _ = rig
    const bob = { ...alice, userId: 'bob' }
    await read(stage)
    await sendSent(stage, callOf(alice, 'notes', 'write_note'))
    rig.clock.advance(30_000)
    await read(stage, bob)
    await send(stage, callOf(bob, 'notes', 'show'))
    rig.clock.advance(40_000)
    expect([await isDenied(stage, alice), await isDenied(stage, bob)]).to.deep.equal([false, true])
  })

  it('labels what a server returns to the tenant that wrote to it', async () => {
    const { rig, stage } = await rigOf({ effect: 'report' })
    await using _ = rig
    const other = { ...alice, userId: 'bob' }
    await read(stage)
    await sendSent(stage, callOf(alice, 'notes', 'write_note'))
    const tenants = ['acme', 'other']
    for (const tenant of tenants) await send(stage, callOf({ ...other, tenant }, 'notes', 'show'))
    const denied = await Promise.all(tenants.map((tenant) => isDenied(stage, { ...other, tenant })))
    expect(denied).to.deep.equal([true, false])
  })

  const others: readonly (readonly [string, Caller])[] = [
    ['the same person at another client', { ...alice, clientId: 'web' }],
    ['another person at the same client', { ...alice, userId: 'bob' }],
    ['a person of another tenant', { ...alice, tenant: 'other' }],
    ['a person of another issuer', { ...alice, issuer: 'j' }],
  ]
  const shares: Readonly<Record<string, readonly boolean[]>> = {
    principal: [false, false, false, false],
    user: [true, false, false, false],
    client: [false, true, false, false],
    tenant: [true, true, false, true],
    claim: [true, true, false, false],
  }
  for (const [unit, expected] of Object.entries(shares)) {
    it(`with the unit ${unit} labels ${
      others
        .filter((_other, at) => expected[at])
        .map(([who]) => who)
        .join(', ') || 'nobody else'
    }`, async () => {
      const { rig, stage } = await rigOf({ unit })
      await using _ = rig
      await read(stage)
      expect(await Promise.all(others.map(([, caller]) => isDenied(stage, caller)))).to.deep.equal(expected)
    })
  }

  it('judges a tool with side effects by its name, and by the sink that has its pattern', async () => {
    const { rig, stage } = await rigOf()
    await using _ = rig
    await read(stage)
    expect(await isDenied(stage, alice, 'notes', 'write_note')).to.equal(true)
    expect(await isDenied(stage, alice, 'notes', 'show_note')).to.equal(false)
    expect(await isDenied(stage, alice, 'mail', 'show')).to.equal(true)
  })

  it('refuses a call whose caller got a label while it waited, before anything is sent', async () => {
    const { rig, stage } = await rigOf()
    await using _ = rig
    const call = callOf(alice, 'mail', 'list')
    let isSent = false
    const outcome: Outcome = await sendWithHolds('protections', stage, call, async () => {
      await read(stage)
      const refused = await controlOf(call).commitHolds()
      isSent = refused === undefined
      return refused ?? served
    })
    expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(isSent).to.equal(false)
  })

  it('keeps no content, and no more than the labels of the policy for each caller', async () => {
    const { rig, stage } = await rigOf()
    await using _ = rig
    await read(stage)
    const { call } = await send(stage, callOf(alice, 'mail', 'list'))
    expect(call.findings.map(({ detail }) => detail)).to.deep.equal([
      `private -> external: the caller has the label private, since ${new Date(rig.clock.now()).toISOString()} by mcp://files/read@1.0.0 (trace ${'0'.repeat(31)}1)`,
    ])
  })
})
