import { expect } from 'chai'
import { MessageStream } from 'svc-sdk/internal/stdio/targets/message-stream'
import { signalled } from '../../../support/signalled.js'

async function textsOf(stream: MessageStream, maxBytes?: number): Promise<string[]> {
  const texts: string[] = []
  for await (const { text } of stream.events(maxBytes === undefined ? {} : { maxBytes })) texts.push(text)
  return texts
}

describe('a stream of messages to a client', () => {
  it('accepts no message after its end, and ends without an error', async () => {
    const stream = new MessageStream(() => undefined)
    expect(stream.offer({ n: 1 })).to.equal(true)
    stream.end({ n: 2 }, '{ "n": 2 }')
    expect(stream.offer({ n: 3 })).to.equal(false)
    stream.end({ n: 4 })
    expect(await textsOf(stream)).to.deep.equal(['{"n":1}', '{ "n": 2 }'])
  })

  it('accepts no message if the reader is far behind, except the last one', async () => {
    const stream = new MessageStream(() => undefined)
    expect(stream.offer({ text: 'x'.repeat(5_000_000) })).to.equal(true)
    expect(stream.offer({ n: 1 })).to.equal(false)
    stream.end({ n: 2 })
    expect((await textsOf(stream)).slice(1)).to.deep.equal(['{"n":2}'])
  })

  it('reports a reader that stops, and fails with the reason of an abort', async () => {
    let closed = 0
    const left = new MessageStream(() => void closed++)
    left.offer({ n: 1 })
    for await (const _event of left.events({})) break
    const aborting = new AbortController()
    const aborted = new MessageStream(() => void closed++, aborting.signal)
    const reading = textsOf(aborted).catch((error: unknown) => error)
    aborting.abort(new Error('enough'))
    expect(await reading).to.have.property('message', 'enough')
    expect(closed).to.equal(2)
  })

  it('fails if a response has too many bytes, and reports that its reader has stopped', async () => {
    const { happened: closed, resolve: close } = signalled()
    const stream = new MessageStream(() => close())
    for (let n = 0; n < 3; n++) stream.offer({ n })
    const error = await textsOf(stream, 20).catch((reason: unknown) => reason)
    expect(error).to.have.property('code', 'PAYLOAD_TOO_LARGE')
    await closed
  })
})
