import { expect } from 'chai'
import { Connections } from 'svc-sdk/internal/http/connections'

const response = { headersSent: false }

/** A socket with this number of bytes written, and of bytes that its client has not read. */
function socketWith(bytesWritten: number, writableLength: number) {
  return { bytesWritten, writableLength }
}

describe('the table of connections', () => {
  const limits = { maxRequestsPerConnection: 1_000, writeTimeoutMs: 1_000 }

  it('removes a connection that has closed', () => {
    const connections = new Connections<ReturnType<typeof socketWith>>(limits)
    const socket = socketWith(100_000, 100_000)
    connections.begin(socket, response)
    connections.delete(socket)
    connections.end(socket)
    expect(connections.isBusy(socket)).to.equal(false)
    expect([...connections.tooSlow(0), ...connections.tooSlow(1e9)]).to.deep.equal([])
  })

  describe('finds a slow client', () => {
    /** The second in which a client is found that reads `bytes` at `bytesPerSec`; undefined if it is not found. */
    function secondOfCut(bytes: number, bytesPerSec: number): number | undefined {
      const connections = new Connections<ReturnType<typeof socketWith>>(limits)
      const socket = socketWith(bytes, bytes)
      connections.begin(socket, response)
      for (let second = 0; second < 10_000; second++) {
        socket.writableLength = Math.max(0, bytes - second * bytesPerSec)
        if ([...connections.tooSlow(second * 1_000)].length > 0) return second
      }
      return undefined
    }

    it('if it reads nothing for the time limit and a second for each 16 KiB', () => {
      expect(secondOfCut(16 * 1024, 0)).to.equal(3)
      expect(secondOfCut(10 * 16 * 1024, 0)).to.equal(12)
    })

    it('if it reads the response byte by byte', () => {
      expect(secondOfCut(10 * 16 * 1024, 1)).to.equal(12)
    })

    it('unless it reads 16 KiB a second', () => {
      expect(secondOfCut(64 * 1024 * 1024, 16 * 1024)).to.equal(undefined)
    })
  })

  it('measures the time for each piece of a response anew', () => {
    const connections = new Connections<ReturnType<typeof socketWith>>(limits)
    const socket = socketWith(0, 0)
    connections.begin(socket, response)
    for (let second = 0; second < 100; second++) {
      // There is always a piece that the client has not read, and always another one.
      socket.bytesWritten += 1_000
      socket.writableLength = 1_000
      expect([...connections.tooSlow(second * 1_000)]).to.deep.equal([])
    }
  })
})
