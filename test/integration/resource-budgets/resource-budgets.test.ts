import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { allCases, attack, type Case, violations } from './experiment.js'

/** Chooses a case beside those below; `npm run chaos:budgets` tries all. */
const seed = Number(process.env['SVC_BUDGETS_SEED'] ?? 1)

describe('a gateway with a small heap', function () {
  this.timeout(60_000)

  const chance = new Chance(seed)
  const [first, ...others] = allCases
  const sample: readonly (Case & { readonly mb?: number })[] = [
    { channel: 'responses over MCP at the same time', shape: 'a huge string' },
    // Above 4 MiB it would be refused unread.
    { channel: 'the bodies of calls at the same time', shape: 'a huge string', mb: 3 },
    { channel: 'a response over MCP', shape: 'many objects' },
    { channel: 'an event over MCP', shape: 'endless empty lines' },
    { channel: 'a notification stream', shape: 'many members' },
    { channel: 'a list of several servers', shape: 'pages of many tools' },
    { channel: 'a call at several servers', shape: 'long ids' },
    { channel: 'lists in sessions that stay open', shape: 'endless pages' },
    { channel: 'a process over stdio', shape: 'a deep id' },
    { channel: 'a process over stdio', shape: 'an id that is an array' },
    { channel: 'a process over stdio', shape: 'endless empty lines' },
    { channel: 'standard error of a process', shape: 'endless empty lines' },
    ...(first === undefined ? [] : [chance.pick([first, ...others])]),
  ]
  for (const one of sample) {
    // More would be refused for its bytes alone by a heap of this size, and its containers would never be counted.
    const { channel, shape, mb = 12 } = one
    it(`keeps serving other calls while it gets ${shape} by ${channel}`, async () => {
      expect(allCases).to.deep.include({ channel, shape })
      expect(violations(await attack(one, mb * 1_048_576))).to.deep.equal([])
    })
  }

  const searched: readonly Case[] = [
    { channel: 'a request over MCP', shape: 'variables in long texts' },
    { channel: 'a request over MCP', shape: 'escapes in short texts' },
    { channel: 'a response over MCP', shape: 'marks of chat in texts of JSON' },
    { channel: 'a response over MCP', shape: 'escapes in short texts' },
  ]
  for (const one of searched) {
    it(`serves others in 100 ms while it searches ${one.shape} by ${one.channel}`, async () => {
      expect(allCases).to.deep.include(one)
      expect(violations(await attack({ ...one, preset: 'guard' }, 1_048_576), 100)).to.deep.equal([])
    })
  }
})
