import { expect } from 'chai'
import { isNormalUri } from 'svc-sdk/internal/mcp/resource-uri'
import { withProxy } from '../../support/mcp-server.js'

describe('URIs of resources', () => {
  for (const uri of [
    'file:///public/a.txt',
    'file:///public/..hidden/...',
    'demo://resource/static/document/1',
    'demo://resource/{id}{?q}',
    'db://Users/Rows?path=../x#..',
    'file:///a%20b/%C3%A9%2F',
    'plain name',
  ]) {
    it(`pass: ${uri}`, () => expect(isNormalUri(uri)).to.equal(true))
  }

  for (const uri of [
    'file:///public/../secret',
    'file:///public/./secret',
    'file:///public/..',
    'file:///public/..?x',
    'file:///public\\..\\secret',
    '../secret',
    'file:///public/%2e%2E/secret',
    'file:///%73ecret',
    'FILE:///secret',
  ]) {
    it(`are refused in a spelling that servers read in more than one way: ${uri}`, () =>
      expect(isNormalUri(uri)).to.equal(false))
  }

  it('that are refused are not sent', () =>
    withProxy(
      (_message, response) => response.end(),
      async (proxy, calls) => {
        const params = { uri: 'file:///public/../secret' }
        const answer = await proxy.answer({
          body: { jsonrpc: '2.0', id: 1, method: 'resources/read', params },
        })
        expect(answer.json()).to.have.nested.property('error.code', -32602)
        expect(calls.filter(({ body }) => body.includes('resources/read'))).to.deep.equal([])
      },
    ))
})
