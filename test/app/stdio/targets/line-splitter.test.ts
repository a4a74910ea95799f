import { expect } from 'chai'
import { LineSplitter, LineTooLong } from 'svc-sdk/internal/stdio/targets/line-splitter'

function linesOf(splitter: LineSplitter, ...chunks: string[]): string[] {
  return chunks.flatMap((chunk) => [...splitter.push(Buffer.from(chunk))])
}

describe('the output of a server over stdio', () => {
  it('is split into lines, wherever its chunks end', () => {
    expect(linesOf(new LineSplitter(100), 'on', 'e\ntw', 'o\r\n\nthree\nfo')).to.deep.equal([
      'one',
      'two',
      '',
      'three',
    ])
  })

  it('keeps characters that two chunks share', () => {
    const [first, second] = [Buffer.from('ä\n').subarray(0, 1), Buffer.from('ä\n').subarray(1)]
    const splitter = new LineSplitter(100)
    expect([...splitter.push(first), ...splitter.push(second)]).to.deep.equal(['ä'])
  })

  it('fails on a line over the limit', () => {
    const splitter = new LineSplitter(4)
    expect(linesOf(splitter, 'four\n')).to.deep.equal(['four'])
    expect(() => linesOf(splitter, 'fi', 've!')).to.throw(LineTooLong)
  })

  it('is truncated at the limit on request', () => {
    expect(linesOf(new LineSplitter(4, true), 'longer', ' still\nnext\n')).to.deep.equal(['long', 'next'])
  })
})
