import { outermostMembers } from '@svc/core/json'
import { expect } from 'chai'

const found = (text: string) => outermostMembers(Buffer.from(text), ['id', 'method'])

describe('the members of an outermost object', () => {
  for (const [what, text, members] of [
    ['have the names that are asked for', '{"id":1,"a":2,"method":"m"}', { id: 1, method: 'm' }],
    ['stand anywhere', '{"a":{"id":2},"b":["id",{"id":3}],"id":1}', { id: 1 }],
    ['have space around them', ' {\n "id" : 1 ,"method"\t:"m" } ', { id: 1, method: 'm' }],
    ['are the last of their name', '{"id":1,"id":2}', { id: 2 }],
    [
      'are found behind names and values that look like them',
      '{"a":"\\"id\\":5,","id":"b\\\\"}',
      { id: 'b\\' },
    ],
    [
      'are found behind a value that is nested too deep',
      `{"a":${'['.repeat(600)}${']'.repeat(600)},"id":1}`,
      { id: 1 },
    ],
    ['are not those of an array', '["id",1]', {}],
    ['are not those of a text that is cut off', '{"id":1,"method":"m"', {}],
    ['are not those of another text', '{"id":1,"method":m}', {}],
    ['are left out if they are long', `{"id":"${'a'.repeat(2048)}","method":"m"}`, { method: 'm' }],
  ] as const) {
    it(what, () => {
      expect(found(text)).to.deep.equal(members)
    })
  }
})
