import { expect } from 'chai'
import sinon from 'sinon'
import { progressDisplay } from 'svc-sdk/internal/cli/progress'

describe('the progress of long work', () => {
  const half = '\u2588'.repeat(15) + '\u2591'.repeat(15)

  /** What 100 MB show, of which 50 are read in ten seconds, a report a second. */
  function shown(isTerminal: boolean, isQuiet: boolean): string[] {
    const lines: string[] = []
    const clock = sinon.useFakeTimers({ toFake: ['performance'] })
    try {
      const put = (line: string) => void lines.push(line)
      const io = { out: async () => undefined, err: put, exit: () => undefined }
      const display = progressDisplay(isTerminal ? { ...io, progress: put } : io, 'audit fetch', isQuiet)
      for (let second = 1; second <= 10; second++) {
        clock.tick(1_000)
        display.show({ bytes: second * 5e6, totalBytes: 1e8 })
        display.show({ bytes: second * 5e6, totalBytes: 1e8 })
      }
      display.clear()
    } finally {
      clock.restore()
    }
    return lines
  }

  it('is a bar on a terminal, with the time that is left, and is removed at the end', () => {
    const lines = shown(true, false)
    expect(lines).to.have.length(11)
    expect(lines[9]).to.equal(`${half}  50 %  50 of 100 MB  5 MB/s  0:10 left`)
    expect(lines[10]).to.equal('')
  })

  it('is a line every five seconds for a pipe', () => {
    expect(shown(false, false)).to.deep.equal([
      'audit fetch: 25 %  25 of 100 MB  5 MB/s  0:15 left\n',
      'audit fetch: 50 %  50 of 100 MB  5 MB/s  0:10 left\n',
    ])
  })

  it('is not shown with --quiet', () => {
    expect([...shown(true, true), ...shown(false, true)]).to.deep.equal([])
  })
})
