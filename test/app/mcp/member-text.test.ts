import { expect } from 'chai'
import { withMembers } from 'svc-sdk/internal/mcp/servers'

const withId = (text: string, id: string) => withMembers(text, { id: JSON.stringify(id) })

describe('the text of a response', () => {
  const changed: readonly (readonly [string, string])[] = [
    ['{"jsonrpc":"2.0","id":7,"result":{}}', '{"jsonrpc":"2.0","id":"mine","result":{}}'],
    ['{"id": 7 , "result":{"id":7,"n":[{"id":1}]}}', '{"id": "mine" , "result":{"id":7,"n":[{"id":1}]}}'],
    ['{"result":{"n":12345678901234567890},"id":7}', '{"result":{"n":12345678901234567890},"id":"mine"}'],
    [
      '{"result":{"said":"\\"id\\":7,{["},"\\u0069d":7}',
      '{"result":{"said":"\\"id\\":7,{["},"\\u0069d":"mine"}',
    ],
    ['{"result":"id","id":-1.5e3}', '{"result":"id","id":"mine"}'],
    ['{"id":"a\\"b","error":{"code":1}}', '{"id":"mine","error":{"code":1}}'],
  ]
  for (const [text, expected] of changed) {
    it(`gets the id of the client and is otherwise unchanged: ${text}`, () => {
      expect(withId(text, 'mine')).to.equal(expected)
    })
  }

  it('is not changed if it has no id, or two', () => {
    expect(withId('{"result":{"id":7}}', 'mine')).to.equal(undefined)
    expect(withId('{"id":7,"id":8}', 'mine')).to.equal(undefined)
  })

  it('loses a member without a change to the others', () => {
    const text = '{ "id": 1e0, "error":null ,"result":{"error":null,"n":12345678901234567890}}'
    expect(withMembers(text, { error: undefined })).to.equal(
      '{ "id": 1e0,"result":{"error":null,"n":12345678901234567890}}',
    )
    expect(withMembers('{"error":null}', { error: undefined })).to.equal('{}')
  })
})
