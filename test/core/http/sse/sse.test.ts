import {
  eventOf,
  readEvent,
  type SseBlock,
  SseOverflow,
  SseSplitter,
  withData,
  withIds,
  withKnownFields,
} from '@svc/core/http'
import { expect } from 'chai'
import fc from 'fast-check'

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')

function split(pieces: readonly Uint8Array[], maxBytes = 1000): { blocks: SseBlock[]; unfinished: number } {
  const splitter = new SseSplitter(maxBytes)
  const blocks = pieces.flatMap((piece) => [...splitter.push(piece)])
  return { blocks, unfinished: splitter.unfinished }
}

/** Every stream of lines, in every mixture of line ends. */
const lines = fc.array(
  fc.tuple(
    fc.constantFrom(
      'data: a',
      'data:',
      ': note',
      ':',
      'id: 7',
      'event: ping',
      'retry: 10',
      '',
      '',
      'data: ä€😀',
    ),
    fc.constantFrom('\n', '\r', '\r\n'),
  ),
  { maxLength: 20 },
)

/** The standard's own algorithm, on the whole text: the data of every event that is dispatched. */
function dataOfWhole(whole: string): string[] {
  const events: string[] = []
  let data: string[] = []
  const ended = whole.split(/\r\n|\r|\n/).slice(0, -1)
  for (const line of ended) {
    if (line === '') {
      if (data.length > 0) events.push(data.join('\n'))
      data = []
    } else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
  }
  return events
}

describe('the event stream splitter', () => {
  it('keeps every byte and finds the same events for any chunks', () => {
    fc.assert(
      fc.property(lines, fc.array(fc.nat(200)), (parts, cuts) => {
        const whole = Buffer.from(parts.flat().join(''))
        const at = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length]
        const pieces = at.slice(1).map((end, i) => whole.subarray(at[i], end))
        const { blocks, unfinished } = split(pieces)
        const passed = Buffer.concat(blocks.map((block) => block.bytes))
        expect(passed.equals(whole.subarray(0, whole.length - unfinished))).to.equal(true)
        const found = blocks.filter((block) => block.isEvent).map((block) => readEvent(block.bytes))
        const withDataLine = blocks.filter((block) => /(^|[\r\n])data:/.test(text(block.bytes)))
        expect(withDataLine.every((block) => block.isEvent)).to.equal(true)
        expect(found.map((event) => event.data).filter((data) => data !== '')).to.deep.equal(
          dataOfWhole(whole.toString()).filter((data) => data !== ''),
        )
      }),
    )
  })

  it('finds the same events for chunks of one byte', () => {
    const stream = Buffer.from(
      ': hi\r\n\r\nid: 1\rdata: {"a":1}\r\revent: message\ndata: x\ndata: ä\n\nretry: 5\r\n\r\n',
    )
    for (let cut = 0; cut <= stream.length; cut++) {
      const { blocks, unfinished } = split([stream.subarray(0, cut), stream.subarray(cut)])
      const events = blocks.filter((block) => block.isEvent).map((block) => readEvent(block.bytes).data)
      expect(events).to.deep.equal(['{"a":1}', 'x\nä', ''])
      expect(unfinished).to.equal(0)
    }
  })

  it('returns a comment at the end of its line, so that it keeps the connection alive', () => {
    const { blocks } = split([Buffer.from(': ping\n')])
    expect(blocks.map((block) => [text(block.bytes), block.isEvent])).to.deep.equal([[': ping\n', false]])
  })

  it('holds an event back until its blank line, and reports an unfinished one', () => {
    const { blocks, unfinished } = split([Buffer.from('data: 1\n\ndata: 2\n')])
    expect(blocks.map((block) => text(block.bytes))).to.deep.equal(['data: 1\n\n'])
    expect(unfinished).to.equal(8)
  })

  it('drops a byte order mark at the beginning of the stream alone, as clients do', () => {
    const stream = Buffer.from('\ufeffdata: 1\n\n\ufeffdata: 2\n\n')
    for (let cut = 0; cut <= stream.length; cut++) {
      const { blocks } = split([stream.subarray(0, cut), stream.subarray(cut)])
      expect(blocks.map(({ bytes }) => text(bytes)).join('')).to.equal('data: 1\n\n\ufeffdata: 2\n\n')
    }
    expect(split([Buffer.from([0xef]), Buffer.from('x\n')]).unfinished).to.equal(3)
  })

  it('refuses an event of very many lines', () => {
    expect(() => split([Buffer.from('data:\n'.repeat(300_000))], 10_000_000)).to.throw(SseOverflow)
  })

  it('refuses an event above the maximum size, in one chunk or several', () => {
    expect(() => split([Buffer.from(`data: ${'x'.repeat(30)}\n\n`)], 20)).to.throw(SseOverflow)
    const trickle = Array.from({ length: 40 }, () => Buffer.from('x'))
    expect(() => split(trickle, 20)).to.throw(SseOverflow)
  })
})

describe('an event', () => {
  it('has its type, its id and the lines of its data', () => {
    const event = readEvent(Buffer.from('event: ping\nid:  7\ndata: a\ndata:b\n: no\n\n'))
    expect(event).to.deep.equal({ type: 'ping', id: ' 7', data: 'a\nb', hasOtherFields: false })
  })

  it('has no lines of fields that the standard does not know, which clients may read after they drop another mark', () => {
    for (const strange of ['\ufeffdata: 2', '\u00ef\u00bb\u00bfdata: 2', 'Data: 2', 'data\0: 2', 'other'])
      for (const lines of [`${strange}\ndata: 1\n\n`, `data: 1\r\n${strange}\r\n\r\n`])
        expect(text(withKnownFields(Buffer.from(lines)))).to.equal('data: 1\n\n')
    const plain = '\n: a comment\nid: 1\nevent\nretry: 1\ndata: a\ndata:b\n\n'
    expect(text(withKnownFields(Buffer.from(plain)))).to.equal(plain)
  })

  it('has the type message by default', () => {
    expect(readEvent(Buffer.from('data: a\n\n'))).to.deep.equal({
      type: 'message',
      id: null,
      data: 'a',
      hasOtherFields: false,
    })
  })

  it('has its ids changed, and no text of other lines', () => {
    const event = 'id: 1\rdata: "\u2028id: 2"\r\ndata: \u2029id: 3\nid:\nid: a\0b\nid:  4\n\n'
    const changed = withIds(Buffer.from(event), (id) => `<${id}>`)
    expect(text(changed)).to.equal(
      'id: <1>\ndata: "\u2028id: 2"\ndata: \u2029id: 3\nid:\nid: a\0b\nid: < 4>\n\n',
    )
  })

  it('is refused when it is not UTF-8', () => {
    expect(() => readEvent(Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a]))).to.throw(TypeError)
  })

  it('keeps its other fields when its data is replaced', () => {
    const bytes = withData(Buffer.from(': c\r\nid: 7\r\ndata: old\r\nevent: message\r\n\r\n'), '{"new":1}')
    expect(text(bytes)).to.equal(': c\nid: 7\nevent: message\ndata: {"new":1}\n\n')
    expect(readEvent(bytes)).to.deep.include({ type: 'message', id: '7', data: '{"new":1}' })
  })

  it('of the gateway itself can be read back', () => {
    expect(readEvent(eventOf('{}'))).to.deep.include({ type: 'message', id: null, data: '{}' })
  })
})
