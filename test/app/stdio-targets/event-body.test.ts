import { expect } from 'chai'
import { EventBody } from 'svc-sdk/internal/stdio-targets/request-answer'

async function textOf(body: EventBody): Promise<string> {
  const pieces: Uint8Array[] = []
  for await (const piece of body.answer.body as AsyncIterable<Uint8Array>) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

describe('a stream of messages to a client', () => {
  it('takes no message after its end, and ends cleanly', async () => {
    const body = new EventBody(() => undefined)
    expect(body.offer({ n: 1 })).to.equal(true)
    body.end({ n: 2 })
    expect(body.offer({ n: 3 })).to.equal(false)
    body.end({ n: 4 })
    expect(await textOf(body)).to.equal('event: message\ndata: {"n":1}\n\nevent: message\ndata: {"n":2}\n\n')
  })

  it('takes no message where the reader is far behind, but the last one', async () => {
    const body = new EventBody(() => undefined)
    const long = { text: 'x'.repeat(5_000_000) }
    expect(body.offer(long)).to.equal(true)
    expect(body.offer({ n: 1 })).to.equal(false)
    body.end({ n: 2 })
    expect(await textOf(body))
      .to.include('{"n":2}')
      .and.not.include('{"n":1}')
  })

  it('tells of a reader that stops, and fails with the reason of an abort', async () => {
    let closed = 0
    const left = new EventBody(() => void closed++)
    left.offer({ n: 1 })
    for await (const _piece of left.answer.body as AsyncIterable<Uint8Array>) break
    const aborting = new AbortController()
    const aborted = new EventBody(() => void closed++, aborting.signal)
    const reading = textOf(aborted).catch((fault: unknown) => fault)
    aborting.abort(new Error('enough'))
    expect(await reading).to.have.property('message', 'enough')
    expect(closed).to.equal(2)
  })
})
