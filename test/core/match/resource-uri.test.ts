import { formatReference, ReferenceInputError } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'

const resource = (uri: string) => formatReference({ server: 's', resource: uri, version: '1' })

function judged(uri: string): string {
  return decodeURIComponent(resource(uri).slice('mcp://s/resources/'.length, -'@1'.length))
}

describe('URIs of resources', () => {
  for (const [uri, read = uri] of [
    ['file:///public/a.txt'],
    ['file:///public/..hidden/...'],
    ['file:///'],
    ['demo://resource/static/document/1'],
    ['demo://resource/{id}{?q}'],
    ['db://Users/Rows?path=../x#..'],
    ['https://internal.example/admin'],
    ['https://internal.example:8443/admin/?q=a%26b', 'https://internal.example:8443/admin/?q=a%26b'],
    ['https://internal.example/?u=https%3A%2F%2Fx', 'https://internal.example/?u=https://x'],
    ['urn:isbn:1'],
    ['web:https://example.com/a'],
    ['plain name'],
    ['file:///a%20b/%C3%A9', 'file:///a b/é'],
    ['file:///a b/é'],
    ['file:///a%26b', 'file:///a&b'],
    ['file:///C%23%3f', 'file:///C%23%3F'],
    ['file:///100%25', 'file:///100%25'],
  ] as const) {
    it(`are judged decoded: ${uri}`, () => expect(judged(uri)).to.equal(read))
  }

  for (const uri of [
    'file:///public/../secret',
    'file:///public/./secret',
    'file:///public/..',
    'demo://public/..?x',
    'file:///public\\..\\secret',
    'file:///public\\secret',
    '../secret',
    '//host/secret',
    'file:///public/%2e%2E/secret',
    'file:///srv/public/..%2fsecret%2fkey',
    'file:///srv/public/a%2Fb',
    'file:///srv/public/a%5Cb',
    'file:///srv/public/..%252fsecret',
    'file:///srv/public/%25%32%65',
    'file:///srv/public/..;x/secret',
    'file:///srv/public/．．/secret',
    'file:///srv//secret',
    'file:///srv/secret/',
    'file:///srv/secret?x',
    'file:///srv/secret#x',
    'file:/srv/secret',
    'file://localhost/srv/secret',
    'file:///C|/secret',
    'file:///%73ecret',
    'file:///%C0%AE%C0%AE/secret',
    'file:///%u002e%u002e/secret',
    'file:///secret%00.txt',
    'file:///secret%',
    'file:///e\u0301',
    'file:///e%CC%81',
    'FILE:///secret',
    ' file:///secret',
    'https://INTERNAL.example/admin',
    'https://internal.example:443/admin',
    'https://u@internal.example/admin',
    'https://internal%2eexample/admin',
    'https://internal.example./admin',
    'https://internal.example',
    'https://internal.example//admin',
    'https://internal.example/admin#x',
    'https://2130706433/admin',
    'https://bücher.example/',
    'https:/internal.example/admin',
    'https:internal.example/admin',
    'https:////internal.example/admin',
    'demo://u@host/x',
  ]) {
    it(`are refused if programs could read them in two ways: ${JSON.stringify(uri)}`, () =>
      expect(() => resource(uri)).to.throw(ReferenceInputError))
  }

  it('are judged the same when their decoded text is read again', () => {
    const piece = fc.constantFrom(
      'a',
      '/',
      '%2F',
      '%20',
      '%25',
      '%23',
      '%3F',
      '?',
      '#',
      '&',
      '%26',
      'é',
      '%C3%A9',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const uri = `demo://h/${pieces.join('')}`
        let read: string
        try {
          read = judged(uri)
        } catch {
          return
        }
        expect(judged(read)).to.equal(read)
      }),
    )
  })
})
