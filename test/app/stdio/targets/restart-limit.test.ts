import { expect } from 'chai'
import { RestartLimit } from 'svc-sdk/internal/stdio/targets/restart-limit'

function limitAt(rules: { base_ms: number; max_ms: number; limit: number }) {
  const clock = { time: 0, now: () => 0, monotonic: () => clock.time }
  return { clock, limit: new RestartLimit(rules, clock) }
}

describe('the restarts of a server over stdio', () => {
  it('wait after the second consecutive failure, twice as long each time, up to a maximum', () => {
    const { limit } = limitAt({ base_ms: 100, max_ms: 350, limit: 10 })
    const waits = [1, 2, 3, 4, 5].map(() => {
      limit.failed('it exited')
      return limit.waitMs
    })
    expect(waits).to.deep.equal([0, 100, 200, 350, 350])
  })

  it('are refused during the wait, with the time of the next start', () => {
    const { clock, limit } = limitAt({ base_ms: 2_000, max_ms: 9_000, limit: 10 })
    limit.failed('it exited')
    expect(limit.refusal()).to.equal(undefined)
    limit.failed('it exited')
    expect(limit.refusal()).to.equal('the next start is in 2 s')
    expect(limit.reason).to.equal('it exited')
    clock.time = 2_000
    expect(limit.refusal()).to.equal(undefined)
  })

  it('wait less again after a process has run for long', () => {
    const { limit } = limitAt({ base_ms: 100, max_ms: 1_000, limit: 10 })
    for (const ranMs of [10, 10, 10]) limit.failed('it exited', ranMs)
    limit.failed('it exited', 60_000)
    expect(limit.waitMs).to.equal(0)
  })

  it('stop at the limit of starts without a handshake', () => {
    const { clock, limit } = limitAt({ base_ms: 0, max_ms: 0, limit: 2 })
    for (const _attempt of [1, 2, 3]) limit.failed('it exited', 10)
    expect(limit.isExhausted).to.equal(false)
    limit.failed('it exited')
    limit.failed('it exited')
    clock.time = 1_000_000
    expect(limit.refusal()).to.include('2 starts failed in a row')
  })
})
