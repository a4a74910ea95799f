import { expect } from 'chai'
import { StderrLog } from 'svc-sdk/internal/stdio/targets/stderr-log'
import { keepingLogger } from '../../../support/logger.js'

const clock = { now: () => 0, monotonic: () => 0 }

describe('the log of standard error', () => {
  const shown = (secrets: Record<string, string>, line: string): unknown => {
    const logger = keepingLogger()
    const listed = Object.entries(secrets).map(([name, value]) => ({ name, value }))
    new StderrLog('files', listed, logger, clock).add(line)
    return logger.lines[0]?.fields['stderr']
  }

  it('contains no line of a secret of several lines', () => {
    const key = ['-----BEGIN KEY-----', 'c2VjcmV0LWJ5dGVz', '-----END KEY-----'].join('\n')
    expect(shown({ KEY: key }, 'using c2VjcmV0LWJ5dGVz')).to.equal('using [KEY]')
  })

  it('contains no part of a secret that begins with another secret', () => {
    expect(shown({ USER_ID: 'ada', TOKEN: 'ada-4711' }, 'refused ada-4711 of ada')).to.equal(
      'refused [TOKEN] of [USER_ID]',
    )
  })
})
