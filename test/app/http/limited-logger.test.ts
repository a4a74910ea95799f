import { expect } from 'chai'
import { LimitedLogger } from 'svc-sdk/internal/http/limited-logger'
import { keepingLogger } from '../../support/logger.js'

describe('the limited logger', () => {
  it('writes ten lines a second and counts the others', () => {
    let now = 0
    const kept = keepingLogger()
    const logger = new LimitedLogger(kept, { monotonic: () => now })
    for (let i = 0; i < 25; i++) logger.error({ i }, 'failed')
    expect(kept.lines).to.have.length(10)
    now = 1000
    logger.error({ i: 25 }, 'failed')
    logger.warn({ i: 26 }, 'warned')
    expect(kept.lines).to.have.length(12)
    expect(kept.lines[10]?.fields).to.deep.equal({ i: 25, suppressed_lines: 15 })
    expect(kept.lines[11]?.fields).to.deep.equal({ i: 26 })
  })
})
