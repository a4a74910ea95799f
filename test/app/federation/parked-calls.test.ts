import type { JsonObject } from '@svc/core/json'
import { expect } from 'chai'
import { ParkedCall, ParkedCalls } from 'svc-sdk/internal/federation/parked-calls'
import { resumeParked } from 'svc-sdk/internal/federation/server-asks'
import { controlOf, makeCall } from '../../support/call.js'

describe('a call that waits for the input of its client', () => {
  it('ends if giving the input to its server fails', async () => {
    const call = makeCall()
    const parked = new ParkedCalls()
    async function* chunks() {
      yield { bytes: Buffer.from(': open\n\n') }
      await new Promise(() => undefined)
    }
    const params = { name: 'ask', arguments: {} }
    const link = { server: 's', revision: '2025-11-25', isStateless: false, sessionId: 'x' }
    const key = JSON.stringify(['s', 'tools/call', { arguments: {}, name: 'ask' }])
    const waiting = new ParkedCall(
      controlOf(call),
      { [Symbol.asyncIterator]: chunks },
      { id: 1, progressToken: undefined },
      { link: { ...link, capabilities: {}, serverInfo: {} }, ownId: '1', key } as never,
      parked,
    )
    waiting.take('q', { method: 'elicitation/create', params: {} })
    let text = ''
    for await (const { bytes } of waiting.round({ id: 1, progressToken: undefined }))
      text += Buffer.from(bytes).toString()
    const requestState = /"requestState":"([^"]+)"/.exec(text)?.[1] ?? ''
    const session = { parked, client: { revision: '2026-07-28', capabilities: {} } }
    const calls = { run: () => Promise.reject(new Error('the disk is full')) }
    const request = { session, calls, headers: {}, own: { headers: {} }, config: { list_timeout_ms: 1000 } }
    const message: JsonObject = {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { ...params, requestState, inputResponses: { 'request-1': { action: 'decline' } } },
    }
    const error = await resumeParked(request as never, 's', message, {} as never).catch(
      (reason: unknown) => reason,
    )
    expect(error).to.have.property('message', 'the disk is full')
    expect(call.signal.reason).to.include({ code: 'CANCELLED' })
    await waiting.ended
  })
})
