import { type Call, denied, failed, type Outcome, type Settlement, statusOf } from '@svc/core'
import { settle } from '@svc/core/pipeline'
import { expect } from 'chai'
import { Registry } from 'prom-client'
import { CallMetrics } from 'svc-sdk/internal/telemetry/metrics/gateway-state'
import { FakeClock } from 'svc-sdk/testing'
import { controlOf, makeCall } from '../../../support/call.js'
import { parseMetrics, sampled } from '../../../support/prometheus.js'

const completed: Outcome = {
  kind: 'completed',
  status: 200,
  headers: {},
  body: new Uint8Array(),
}

function settlement(outcome: Outcome): Settlement {
  const error = outcome.kind === 'completed' ? null : outcome.code
  const status = error === null ? 200 : statusOf(error)
  return { outcome, status, sent: 'yes', bytes: 0, digest: null, error }
}

describe('call metrics', () => {
  const servers = new Set(['files'])
  let clock: FakeClock
  let registry: Registry
  let calls: CallMetrics

  beforeEach(() => {
    clock = new FakeClock()
    registry = new Registry()
    calls = new CallMetrics(registry, clock)
  })

  const metrics = async () => parseMetrics(await registry.metrics())

  async function run(call: Call, outcome: Outcome, ms: number, isListening = false): Promise<void> {
    calls.begin(call, servers, () => isListening)
    clock.advance(ms)
    await controlOf(call)[settle](settlement(outcome))
    calls.end()
  }

  it('measure the time from arrival to the end of the response', async () => {
    await run(makeCall(), completed, 30)
    await run(makeCall(), denied('TOOL_NOT_ALLOWED', 'no'), 2)
    await run(makeCall(), failed('UPSTREAM_UNREACHABLE', 'gone'), 90_000)
    const families = await metrics()
    const upTo = (le: string) =>
      sampled(families, 'svc_call_duration_seconds_bucket', { server: 'files', le })
    expect(['0.001', '0.0025', '0.025', '0.05', '60', '+Inf'].map(upTo)).to.deep.equal([0, 1, 1, 2, 2, 3])
    expect(sampled(families, 'svc_call_duration_seconds_sum')).to.be.closeTo(90.032, 1e-9)
  })

  it('count a call that only listens, without its time', async () => {
    await run(makeCall(), completed, 3_600_000, true)
    const families = await metrics()
    expect(sampled(families, 'svc_calls_total', { code: 'OK' })).to.equal(1)
    expect(families.get('svc_call_duration_seconds')?.samples.every(({ value }) => value === 0)).to.equal(
      true,
    )
  })

  it('count the calls in flight that have begun and not ended', async () => {
    const call = makeCall()
    calls.begin(call, servers, () => false)
    calls.begin(makeCall(), servers, () => false)
    expect(sampled(await metrics(), 'svc_calls_in_flight')).to.equal(2)
    calls.end()
    expect(sampled(await metrics(), 'svc_calls_in_flight')).to.equal(1)
  })

  it('name a server as the policy does, whatever its name', async () => {
    const odd = 'a"b\\c\nd'
    const call = makeCall({ server: odd })
    calls.begin(call, new Set([odd]), () => false)
    await controlOf(call)[settle](settlement(completed))
    const families = await metrics()
    expect(sampled(families, 'svc_call_duration_seconds_count', { server: odd })).to.equal(1)
    expect(sampled(families, 'svc_calls_total', { server: odd })).to.equal(1)
  })

  it('are the same however often they are scraped', async () => {
    await run(makeCall(), completed, 1)
    expect(await metrics()).to.deep.equal(await metrics())
  })

  it('count the outcome of a call even if its record could not be written', async () => {
    const call = makeCall()
    calls.begin(call, servers, () => false)
    // The audit stage is outermost, so that its handler comes after.
    call.onSettle(() => {
      throw new Error('the disk is full')
    })
    await controlOf(call)
      [settle](settlement(completed))
      .catch(() => undefined)
    expect(sampled(await metrics(), 'svc_calls_total', { code: 'INTERNAL' })).to.equal(1)
  })
})
