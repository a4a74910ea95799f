import { expect } from 'chai'
import { RestartBackoff } from 'svc-sdk/internal/workers/restart-backoff'

const crash = { code: 1, signal: null }
const killed = { code: null, signal: 'SIGKILL' } as const

function backoffAfter(
  ends: readonly (readonly [typeof crash | typeof killed, number | undefined])[],
): RestartBackoff {
  const backoff = new RestartBackoff()
  for (const [end, servedMs] of ends) backoff.ended(end, servedMs)
  return backoff
}

describe('the replacement of a worker that ended', () => {
  it('is at once for the first, and later with each that did not last', () => {
    const waits = [1, 2, 3, 4, 20].map((count) => backoffAfter(new Array(count).fill([killed, 500])).waitMs)
    expect(waits).to.deep.equal([0, 100, 200, 400, 5_000])
  })

  it('is at once for one that had served for a while', () => {
    expect(backoffAfter([...new Array(4).fill([crash, 500]), [crash, 60_000]]).waitMs).to.equal(0)
  })

  for (const [what, row, isExhausted] of [
    ['ends for those that crash before they serve', [crash, undefined], true],
    ['ends for those that crash soon after', [crash, 500], true],
    ['ends for those that are killed before they serve, as by too little memory', [killed, undefined], true],
    ['does not end for those that somebody kills while they serve', [killed, 500], false],
  ] as const)
    it(what, () => {
      expect(backoffAfter([row, row, row, row]).isExhausted).to.equal(false)
      expect(backoffAfter(new Array(20).fill(row)).isExhausted).to.equal(isExhausted)
    })
})
