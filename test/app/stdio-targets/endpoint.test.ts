import { tmpdir } from 'node:os'
import { KeyReader } from '@svc/core/secret'
import { expect } from 'chai'
import { stdioTargetSchema } from 'svc-sdk/internal/stdio-targets/config'
import { StdioEndpoint } from 'svc-sdk/internal/stdio-targets/endpoint'
import { Launcher } from 'svc-sdk/internal/stdio-targets/launcher'
import { keepingLogger } from '../../support/logger.js'
import { until } from '../../support/stdio-target.js'

describe('a closed endpoint of a server over stdio', () => {
  it('does not start the server that was about to start again', async () => {
    const target = stdioTargetSchema.parse({
      command: 'false',
      start: 'at_start',
      restart: { base_ms: 1_000, limit: 3 },
    })
    const logger = keepingLogger()
    const place = { baseDir: tmpdir(), stateDir: tmpdir() }
    const endpoint = new StdioEndpoint({
      name: 'files',
      target,
      clock: { now: Date.now, monotonic: () => performance.now() },
      logger,
      client: { name: 'test', version: '1' },
      maxMessageBytes: 1_000,
      answerTimeoutMs: 1_000,
      launcher: new Launcher(target, { ...place, keys: new KeyReader({ ...place, env: {} }) }),
    })
    const kept = endpoint.keepRunning()
    const failures = () => logger.lines.filter(({ message }) => message === 'the MCP server did not start')
    // The third start is a second later.
    await until(() => failures().length === 2)
    await endpoint.close()
    await kept
    expect(failures()).to.have.length(2)
  })
})
