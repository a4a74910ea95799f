import type { Redactor } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { isVoteError } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { ofEachTest } from '../../../support/parts.js'
import { type EscalationRig, idOf, reviewer, risky, startRig, summaryOf, TestStore, TTL } from './rig.js'

const long = { amount: 10, note: 'x'.repeat(3000), payee: 'last' }
const whole = canonicalize(long)
const ann = reviewer('ann')

/** The code of a refused vote. */
async function codeOf(vote: Promise<unknown>): Promise<string> {
  const [result] = await Promise.allSettled([vote])
  if (result?.status !== 'rejected') return 'counted'
  if (!isVoteError(result.reason)) throw result.reason
  return result.reason.code
}

const approving = (inputSha256?: string) =>
  ({ vote: 'approve', ...(inputSha256 === undefined ? {} : { inputSha256 }) }) as const

describe('the input of an escalation', () => {
  const rig = ofEachTest(() => startRig())

  it('is whole, with the hash that the records have', async () => {
    const id = idOf(await rig.call({ args: long }))
    expect(await rig.service.input(id)).to.deep.equal({ text: whole, sha256: sha256Hex(whole) })
    expect(rig.events[0]).to.include({ inputSha256: sha256Hex(whole) })
    expect(await rig.service.input('esc_none')).to.equal(undefined)
  })

  it('has the params beside the arguments', async () => {
    const request = { canonicalParams: `{"inputResponses":"${'y'.repeat(3000)}"}` }
    const id = idOf(await rig.call({ request, args: { a: 1 } }))
    expect((await rig.service.input(id))?.text).to.equal(
      `{"arguments":{"a":1},"params":${request.canonicalParams}}`,
    )
  })

  it('is approved if the preview cuts it only with the hash of the whole', async () => {
    const id = idOf(await rig.call({ args: long }))
    const before = rig.events.length
    for (const given of [approving(), approving(''), approving(sha256Hex(`${whole} `))]) {
      expect(await codeOf(rig.service.vote(id, ann, given))).to.equal('INPUT_NOT_SEEN')
    }
    expect(await rig.service.find(id)).to.deep.include({ status: 'pending', votes: [] })
    expect(rig.events).to.have.length(before)
    expect(await rig.service.vote(id, ann, approving(sha256Hex(whole)))).to.include({ status: 'approved' })
    expect(summaryOf(await rig.call({ args: long }))).to.deep.equal({ code: 'sent' })
  })

  it('is rejected without the hash', async () => {
    const id = idOf(await rig.call({ args: long }))
    expect(await rig.service.vote(id, ann, { vote: 'reject' })).to.include({ status: 'rejected' })
  })

  it('needs no hash if the preview is whole, and a wrong one is refused all the same', async () => {
    const id = idOf(await rig.call({ args: { amount: 10 } }))
    expect(await codeOf(rig.service.vote(id, ann, approving(sha256Hex('{"amount":11}'))))).to.equal(
      'INPUT_NOT_SEEN',
    )
    expect(await codeOf(rig.service.vote(id, ann, approving(sha256Hex('{"amount":10}'))))).to.equal('counted')
    const other = idOf(await rig.call({ args: { amount: 20 } }))
    expect(await codeOf(rig.service.vote(other, ann, approving()))).to.equal('counted')
  })

  const reads = [
    ['args', 'amount'],
    ['args', 'lines', 0, 'to'],
    ['params', 'unit'],
    ['call', 'time'],
  ]
  const ruled = { ...risky, approval: { digest: 'd', reads } }
  const valuesOf = async (options: Parameters<EscalationRig['call']>[0]) => {
    const found = await rig.service.find(idOf(await rig.call(options)))
    return found?.values?.map(({ name, value }) => `${name} ${value}`)
  }

  it('has in short the values that its rules read, which no other arguments push out', async () => {
    const more = { aa: 1, ab: 2, ac: 3, arguments: { amount: 1 }, 'lines.0.to': 'me', note: 'x'.repeat(3000) }
    const args = { ...more, amount: 240, lines: [{ to: 'li@example.com' }] }
    expect(await valuesOf({ args, findings: [ruled] })).to.deep.equal([
      'amount 240',
      'lines.0.to li@example.com',
      'aa 1',
    ])
    const request = { canonicalParams: '{"unit":"EUR"}' }
    expect(await valuesOf({ request, args, findings: [ruled] })).to.deep.equal([
      'amount 240',
      'lines.0.to li@example.com',
      'params.unit EUR',
    ])
    expect(await valuesOf({ args: { amount: 'y'.repeat(50) }, findings: [ruled] })).to.deep.equal([
      `amount ${'y'.repeat(20)}…${sha256Hex('y'.repeat(50)).slice(0, 8)}…${'y'.repeat(10)}`,
    ])
  })

  it('has in short its first values, numbers before texts, if no rule reads one', async () => {
    expect(
      await valuesOf({ args: { b: 'two', a: [1], c: 3, d: true, e: 'x'.repeat(41), f: 4 } }),
    ).to.deep.equal(['c 3', 'f 4', 'b two'])
    expect(await valuesOf({ args: [1] })).to.deep.equal([])
  })

  it('is shown redacted, with the hash of the redacted text', async () => {
    const redactor: Redactor = {
      pseudonym: (name) => name,
      text: (text) => text.replaceAll('last', 'hmac-sha256:1'),
    }
    const id = idOf(await rig.call({ args: long, redactor }))
    const shown = whole.replace('last', 'hmac-sha256:1')
    expect((await rig.service.find(id))?.values?.at(-1)).to.deep.equal({
      name: 'payee',
      value: 'hmac-sha256:1',
    })
    expect(await rig.service.input(id)).to.deep.equal({ text: shown, sha256: sha256Hex(shown) })
    expect(await codeOf(rig.service.vote(id, ann, approving(sha256Hex(whole))))).to.equal('INPUT_NOT_SEEN')
    expect(await codeOf(rig.service.vote(id, ann, approving(sha256Hex(shown))))).to.equal('counted')
  })

  it('is neither shown nor asked for if the policy hides arguments', async () => {
    await using silent = await startRig({ rule: { showsArguments: false } })
    const id = idOf(await silent.call({ args: long }))
    expect(await silent.service.input(id)).to.equal(undefined)
    expect(await silent.service.find(id)).not.to.have.any.keys('args', 'values')
    expect(await codeOf(silent.service.vote(id, ann, approving()))).to.equal('counted')
  })

  it('is kept until the decision, whatever decides', async () => {
    const clock = new FakeClock()
    const store = new TestStore(clock)
    await using shared = await startRig({ store, clock })
    for (const decide of [
      (id: string) => shared.service.vote(id, ann, approving(sha256Hex(whole))),
      (id: string) => shared.service.vote(id, ann, { vote: 'reject' }),
      async (id: string) => {
        clock.advance(TTL)
        await shared.service.find(id)
      },
    ]) {
      const id = idOf(await shared.call({ args: long }))
      expect(await store.entries.input(id)).to.equal(whole)
      await decide(id)
      expect(await store.entries.input(id)).to.equal(undefined)
      clock.advance(2 * TTL)
    }
    await using auto = await startRig({ store, clock, rule: { strategy: 'auto_allow' } })
    const sent = auto.make({ args: { ...long, more: 1 } })
    await auto.through(sent, async () => ({ kind: 'failed', code: 'INTERNAL', message: '' }))
    const [newest] = await auto.service.list({ limit: 1 })
    expect(newest).to.include({ decidedBy: 'strategy' })
    expect(await store.entries.input(newest?.id ?? '')).to.equal(undefined)
  })

  it('stays if the decision could not be recorded', async () => {
    let isDown = false
    await using failing = await startRig({
      record: ({ name }) => {
        if (isDown && name === 'escalations/decide') throw new Error('the disk is full')
      },
    })
    const id = idOf(await failing.call({ args: long }))
    isDown = true
    await Promise.allSettled([failing.service.vote(id, ann, approving(sha256Hex(whole)))])
    expect(await failing.service.input(id)).to.include({ text: whole })
    isDown = false
    expect(await codeOf(failing.service.vote(id, ann, approving(sha256Hex(whole))))).to.equal('counted')
  })

  it('is refused beyond the bytes of pending inputs that a caller may have', async () => {
    const large = (n: number) => ({ args: { n, text: 'x'.repeat(3_000_000) } })
    expect(summaryOf(await rig.call(large(1)))).to.include({ code: 'ESCALATION_PENDING' })
    expect(summaryOf(await rig.call(large(2)))).to.deep.equal({ code: 'RATE_LIMITED' })
    expect(summaryOf(await rig.call())).to.include({ code: 'ESCALATION_PENDING' })
  })
})
