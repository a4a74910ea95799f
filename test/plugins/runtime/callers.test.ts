// What one caller's input causes at the runtime does not change what another caller gets.

import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { argumentsOf, EvaluatedCalls, failureModes } from './evaluated-calls.js'
import { decide, type RuntimeHandler, respond, unusedUrl } from './gateway.js'

const seed = Number(process.env['SVC_SEED'] ?? 21)

/** How the runtime fails on the input of one caller. */
const failures: Readonly<Record<string, RuntimeHandler>> = {
  'responds 500': (response) => respond(response, 500, {}),
  'responds 429': (response) => respond(response, 429, {}),
  'closes the connection': (response) => response.destroy(),
  'does not respond': () => undefined,
  'sends invalid JSON': (response) => response.end('<html>'),
}

/** Fails on calls with `poison`, and denies the payee `mallory`. */
const failingOn =
  (fail: RuntimeHandler): RuntimeHandler =>
  (response, call, count) => {
    const { poison, payee } = argumentsOf(call.body)
    if (poison === true) return fail(response, call, count)
    decide(response, { action: payee === 'mallory' ? 'deny' : 'allow' })
  }

describe('callers of a gateway with a remote runtime', () => {
  for (const failureMode of failureModes) {
    for (const [how, fail] of Object.entries(failures)) {
      // Those that wait for it are calls of another; this caller's end long before, on a loaded machine too.
      const timeoutMs = how === 'does not respond' ? 2_000 : 10_000
      it(`keep verdicts and waits if it ${how} for another caller, with failureMode ${failureMode}`, async () => {
        await using calls = await new EvaluatedCalls().begin({
          runtime: failingOn(fail),
          failureMode,
          remote: { timeoutMs, maxRetries: 0 },
        })
        const chance = new Chance(seed)
        const poisoned: Promise<unknown>[] = []
        for (let i = 0; i < 12; i++) {
          const burst = i === 0 ? 70 : chance.int(0, 6)
          for (let j = 0; j < burst; j++) poisoned.push(calls.call('eve', { poison: true, j }))
          // If each failure is quick, some have ended before the other caller's call, and some have not.
          if (chance.next() < 0.5 && how !== 'does not respond') await Promise.all(poisoned.splice(0))
          const payee = chance.pick(['bob', 'mallory'])
          const { isSent, refusal, findings, elapsedMs } = await calls.call('ada', { payee })
          const expected =
            payee === 'bob'
              ? { isSent: true, refusal: undefined, findings: [] }
              : {
                  isSent: false,
                  refusal: 'TOOL_NOT_ALLOWED runtime_denied',
                  findings: ['runtime_denied deny'],
                }
          expect({ isSent, refusal, findings }, `SVC_SEED=${seed}, call ${i}`).to.deep.equal(expected)
          expect(elapsedMs).to.be.lessThan(0.8 * timeoutMs)
        }
        await Promise.all(poisoned)
      })
    }
  }

  for (const failureMode of ['local', 'allow'] as const) {
    it(`cannot avoid a denial by failing calls first, with failureMode ${failureMode}`, async () => {
      await using calls = await new EvaluatedCalls().begin({
        runtime: failingOn((response) => respond(response, 500, {})),
        failureMode,
        remote: { maxRetries: 0 },
      })
      for (let i = 0; i < 10; i++) await calls.call('eve', { poison: true })
      expect(await calls.call('eve', { payee: 'mallory' })).to.include({ isSent: false })
    })
  }

  for (const [failureMode, expected] of [
    ['deny', { isSent: false, refusal: 'RUNTIME_UNAVAILABLE' }],
    ['local', { isSent: true, refusal: undefined }],
    ['allow', { isSent: true, refusal: undefined }],
  ] as const) {
    it(`get the finding runtime_unavailable if a call was not evaluated, with failureMode ${failureMode}`, async () => {
      await using calls = await new EvaluatedCalls().begin({
        runtime: () => undefined,
        endpoint: await unusedUrl(),
        failureMode,
        remote: { maxRetries: 0 },
      })
      for (let i = 0; i < 7; i++) {
        const { isSent, refusal, findings } = await calls.call(`caller ${i}`, {})
        expect({ isSent, refusal, findings }).to.deep.equal({
          ...expected,
          findings: ['runtime_unavailable reported'],
        })
      }
      // The two calls after the fifth failure to connect send no request, though their callers sent none before.
      expect(calls.meter.values.get('svc_runtime_skipped_total')).to.equal(2)
    })
  }

  it('are each stopped at their own first failure if the runtime fails for three and decides for none', async () => {
    await using calls = await new EvaluatedCalls().begin({
      runtime: failingOn((response) => respond(response, 500, {})),
      failureMode: 'local',
      remote: { maxRetries: 0 },
    })
    for (const caller of ['a', 'b', 'c', 'd']) await calls.call(caller, { poison: true })
    expect(calls.meter.read('svc_runtime_circuit_open')).to.equal(1)
    await calls.call('d', { poison: true })
    expect(calls.requests).to.equal(4)
    expect(await calls.call('ada', { payee: 'mallory' })).to.include({ isSent: false })
    expect(calls.meter.read('svc_runtime_circuit_open')).to.equal(0)
    expect(calls.log.lines.map(({ message }) => message).slice(1)).to.deep.equal([
      'the runtime cannot be reached or fails for several callers',
      'the runtime decides again',
    ])
  })
})
