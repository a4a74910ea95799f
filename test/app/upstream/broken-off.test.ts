import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { UndiciDispatcher } from 'svc-sdk/internal/upstream/undici'
import { signalled } from '../../support/signalled.js'
import { startUpstream } from '../../support/upstream.js'

describe('a stream from upstream', () => {
  it('is closed if it is aborted before it is read, and its reader gets the reason', async () => {
    const { happened: left, resolve: gone } = signalled()
    await using upstream = await startUpstream((_call, response) => {
      response.on('close', () => gone())
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    })
    const dispatcher = new UndiciDispatcher({
      connectTimeoutMs: 2_000,
      headersTimeoutMs: 2_000,
      idleTimeoutMs: 2_000,
      wholeUpToBytes: 1_000,
    })
    const stop = new AbortController()
    const { body } = await dispatcher.send(
      new URL(upstream.url),
      { method: 'GET', path: '/', headers: {}, signal: stop.signal },
      () => undefined,
    )
    const reason = new Refusal('DURATION_EXCEEDED', 'Too long.')
    stop.abort(reason)
    await left
    if (body instanceof Uint8Array) throw new Error('the response is not a stream')
    const told = await body[Symbol.asyncIterator]()
      .next()
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(told).to.equal(reason)
    await dispatcher.close()
  })
})
