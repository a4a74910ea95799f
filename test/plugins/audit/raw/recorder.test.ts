import { type Appender, denied, type Outcome, type ResponseChunk } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../../support/call.js'
import { served } from '../../../support/stage-rig.js'
import { AuditRig } from '../rig.js'

async function start(changes: object = {}, writer: Partial<Appender> = {}) {
  const rig = new AuditRig(writer, {}, Date.UTC(2026, 0, 1, 0, 0, 5))
  const run = await rig.runner({
    presign: { apiBaseUrl: 'http://127.0.0.1:9', auditKey: 'Bearer k' },
    raw_payloads: true,
    ...changes,
  })
  return { rig, payloads: rig.payloads, run, stop: () => rig[Symbol.asyncDispose]() }
}

const responded = (body: string): Outcome => ({ ...served, body: Buffer.from(body) })

function streamed(...chunks: ResponseChunk[]): Outcome {
  return {
    ...served,
    body: {
      async *[Symbol.asyncIterator]() {
        yield* chunks
      },
    },
  }
}

async function drain(outcome: Outcome): Promise<string> {
  if (outcome.kind !== 'completed' || outcome.body instanceof Uint8Array) throw new Error('no stream')
  let text = ''
  for await (const { bytes } of outcome.body) text += Buffer.from(bytes)
  return text
}

describe('raw payloads', () => {
  it('are kept in both directions, redacted, with size and origin', async () => {
    const { payloads, run, stop } = await start()
    const call = makeCall({
      caller: { tenant: 'globex', user: 'ann' },
      args: { password: 'hunter2', to: 'ann@example.com' },
      agent: { nodeId: 'n', agentRef: 'run-7' },
    })
    await run(call, responded('{"token":"abc","n":1}'))
    await stop()
    const common = {
      trace_id: call.trace.traceId,
      span_id: call.trace.spanId,
      runId: 'run-7',
      tenant: 'globex',
      payload_truncated: false,
    }
    expect(payloads).to.deep.equal([
      {
        ...common,
        ts: '2026-01-01T00:00:00.000Z',
        direction: 'input',
        payload_preview: '{"password":"[redacted]","to":"[redacted:email]"}',
        payload_bytes: 45,
      },
      {
        ...common,
        ts: '2026-01-01T00:00:05.000Z',
        direction: 'output',
        payload_preview: '{"token":"[redacted]","n":1}',
        payload_bytes: 21,
      },
    ])
  })

  it('are truncated to rawPreviewBytes and marked as such', async () => {
    const { payloads, run, stop } = await start({ rawPreviewBytes: 20 })
    await run(makeCall({ args: { text: 'é'.repeat(5_000) } }), responded('x'.repeat(21)))
    await stop()
    expect(
      payloads.map(({ payload_preview, payload_truncated, payload_bytes }) => [
        payload_preview,
        payload_truncated,
        payload_bytes,
      ]),
    ).to.deep.equal([
      ['{"text":"ééééé', true, 10_011],
      ['x'.repeat(20), true, 21],
    ])
  })

  it('have the trace as their run without an agent, and no output without a response', async () => {
    const { payloads, run, stop } = await start()
    const call = makeCall({ caller: {} })
    await run(call, denied('TOOL_NOT_ALLOWED', 'no'))
    await stop()
    expect(payloads.map(({ runId, tenant, direction }) => [runId, tenant, direction])).to.deep.equal([
      [call.trace.traceId, 'acme', 'input'],
    ])
  })

  it('copy a stream without changing it', async () => {
    const { payloads, run, stop } = await start()
    const outcome = await run(
      makeCall(),
      streamed({ bytes: Buffer.from('one ') }, { bytes: Buffer.from('two') }),
    )
    expect(await drain(outcome)).to.equal('one two')
    await stop()
    expect(payloads[1]).to.include({ direction: 'output', payload_preview: 'one two', payload_bytes: 7 })
  })

  it('of an MCP stream contain the response, not the messages around it', async () => {
    const { payloads, run, stop } = await start()
    const response = { digest: null, instead: () => Buffer.from('') }
    const outcome = await run(
      makeCall(),
      streamed(
        { bytes: Buffer.from('progress') },
        { bytes: Buffer.from('the response'), response },
        { bytes: Buffer.from('more') },
      ),
    )
    await drain(outcome)
    await stop()
    expect(payloads[1]).to.include({ payload_preview: 'the response', payload_bytes: 12 })
  })

  it('delay no response, and their loss is counted and logged', async () => {
    let fail: (error: Error) => void = () => undefined
    const { rig, run, stop } = await start(
      {},
      {
        appendRawPayload: () =>
          new Promise((_, reject) => {
            fail = reject
          }),
      },
    )
    const call = makeCall({ caller: {} })
    const outcome = await run(call, denied('TOOL_NOT_ALLOWED', 'no'))
    expect(outcome).to.include({ code: 'TOOL_NOT_ALLOWED' })
    const stopped = stop()
    await new Promise((resolve) => setImmediate(resolve))
    fail(new Error('disk'))
    await stopped
    expect(rig.meter.counted).to.deep.equal(['svc_audit_raw_payload_failures_total'])
    expect(rig.log.lines.map(({ message }) => message)).to.deep.equal(['a raw payload could not be written'])
  })

  it('are not kept by default', async () => {
    const { payloads, run, stop } = await start({ raw_payloads: false })
    await run(makeCall({ args: { a: 1 } }), responded('{}'))
    await stop()
    expect(payloads).to.deep.equal([])
  })

  it('need a writer that supports them', async () => {
    let failure = ''
    await start({}, { appendRawPayload: undefined as never }).catch((error: Error) => {
      failure = error.message
    })
    expect(failure).to.include('the writer in use has no appendRawPayload')
  })
})
