import { expect } from 'chai'
import { allCases, attack, type Case } from './experiment.js'

// More would be refused for its bytes alone by a heap of this size, and its containers would never be counted.
const bytes = 12 * 1_048_576
/** What one response may hold up others for, on a busy machine. */
const boundMs = 5_000

describe('a gateway with a small heap', function () {
  this.timeout(60_000)

  const sample: readonly Case[] = [
    { channel: 'invoke', shape: 'an endless list' },
    { channel: 'a response over MCP', shape: 'many objects' },
    { channel: 'an event over MCP', shape: 'deep nesting' },
    { channel: 'a standing stream', shape: 'many members' },
    { channel: 'a list of several servers', shape: 'pages of many tools' },
    { channel: 'a call at several servers', shape: 'long ids' },
    { channel: 'a process over stdio', shape: 'many rows' },
    { channel: 'a process over stdio', shape: 'a deep id' },
    { channel: 'a process over stdio', shape: 'an id that is an array' },
  ]
  for (const one of sample) {
    it(`keeps serving other calls while a server sends ${one.shape} by ${one.channel}`, async () => {
      expect(allCases).to.deep.include(one)
      const { statuses, longestMs } = await attack(one, bytes)
      expect(statuses).to.not.include(undefined)
      expect(longestMs).to.be.lessThan(boundMs)
    })
  }
})
