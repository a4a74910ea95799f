import { UploadThrottle } from '@svc/plugin-audit/internal/log/upload/throttle'
import { expect } from 'chai'

describe('the pause of the upload while records are appended', () => {
  it('ends soon after the last append, however long the work before it took', async () => {
    const appends = new Int32Array(new SharedArrayBuffer(4))
    const throttle = new UploadThrottle(appends)
    await throttle.wait()
    const begun = performance.now()
    while (performance.now() - begun < 300) Atomics.add(appends, 0, 1)
    const asked = performance.now()
    await throttle.wait()
    // By the work before it, the pause is 3.3 s.
    expect(performance.now() - asked)
      .to.be.above(50)
      .and.below(2_000)
  })
})
