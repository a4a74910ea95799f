import { expect } from 'chai'
import { RestartBackoff } from 'svc-sdk/internal/workers/restart-backoff'
import type { WorkerEnd } from 'svc-sdk/internal/workers/worker-process'

const crash: WorkerEnd = { code: 1, signal: null, hungMs: undefined }
const killed: WorkerEnd = { code: null, signal: 'SIGKILL', hungMs: undefined }
const hung: WorkerEnd = { ...killed, hungMs: 10_000 }

function backoffAfter(ends: readonly (readonly [WorkerEnd, number | undefined])[]): RestartBackoff {
  const backoff = new RestartBackoff()
  for (const [end, servedMs] of ends) backoff.ended(end, servedMs)
  return backoff
}

describe('the replacement of a worker that ended', () => {
  it('is at once for the first, and later with each that did not last', () => {
    const waits = [1, 2, 3, 4, 20].map((count) => backoffAfter(new Array(count).fill([killed, 500])).waitMs)
    expect(waits).to.deep.equal([0, 100, 200, 400, 5_000])
  })

  it('is later with each that hung soon after its start', () => {
    expect(backoffAfter(new Array(3).fill([hung, 11_500])).waitMs).to.equal(200)
  })

  it('is at once for one that had served for a while', () => {
    expect(backoffAfter([...new Array(4).fill([crash, 500]), [crash, 60_000]]).waitMs).to.equal(0)
  })

  for (const [what, row, isExhausted] of [
    ['ends for those that crash before they serve', [crash, undefined], true],
    ['ends for those that crash soon after', [crash, 500], true],
    ['ends for those that are killed before they serve, as by too little memory', [killed, undefined], true],
    ['does not end for those that somebody kills while they serve', [killed, 500], false],
    ['ends for those that hang soon after they serve, and are killed for it', [hung, 11_500], true],
    ['does not end for those that had responded for a while before they hung', [hung, 60_000], false],
  ] as const)
    it(what, () => {
      expect(backoffAfter([row, row, row, row]).isExhausted).to.equal(false)
      expect(backoffAfter(new Array(20).fill(row)).isExhausted).to.equal(isExhausted)
    })
})
