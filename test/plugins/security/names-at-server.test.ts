// URIs that name something at the server, such as resources of its own scheme, and URIs that it would fetch or open.
import type { CallRequest } from '@svc/core'
import { checkContent, contentRules, securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'

const rules = contentRules(
  securityPlugin.schema.parse({ egress_allowlist: ['good.example'], fs_allowlist: ['/srv/**'] }),
)

const names = [
  'demo://resource/static/1',
  'memory://insights',
  'ui://weather/app.html',
  'urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66',
  'https://good.example/a',
  'file:///srv/a.txt',
]
const reached: Readonly<Record<string, string>> = {
  'https://evil.example/a': 'egress_violation',
  'HTTP://evil.example/a': 'egress_violation',
  ' https://evil.example/a': 'egress_violation',
  'http://169.254.169.254/latest': 'egress_violation',
  'ws://evil.example/a': 'egress_violation',
  'ftp://evil.example/a': 'egress_violation',
  'git+https://evil.example/a': 'egress_violation',
  'jar:file:///etc/a.jar': 'egress_violation',
  '%68ttp://evil.example/a': 'egress_violation',
  '//evil.example/a': 'egress_violation',
  'file:///etc/passwd': 'fs_violation',
  'FILE:///etc/passwd': 'fs_violation',
  '/etc/passwd': 'fs_violation',
  'C:/Windows/win.ini': 'fs_violation',
}

type Checked = Pick<CallRequest, 'kind' | 'args' | 'method'> & Partial<Pick<CallRequest, 'params'>>
const rootsOf = (uri: string) => ({ roots: [{ name: 'a root', uri }] })
const places: Readonly<Record<string, (uri: string) => Checked>> = {
  'resources/read': (uri) => ({ kind: 'resource', method: 'resources/read', args: { uri } }),
  'resources/subscribe': (uri) => ({ kind: 'resource', method: 'resources/subscribe', args: { uri } }),
  'resources/unsubscribe': (uri) => ({ kind: 'resource', method: 'resources/unsubscribe', args: { uri } }),
  'a root of a response': (uri) => ({ kind: 'protocol', method: null, args: { result: rootsOf(uri) } }),
  'a root of an inputResponses': (uri) => ({
    kind: 'tool',
    method: 'tools/call',
    args: {},
    params: { inputResponses: { q: rootsOf(uri) } },
  }),
  'a root of an update of a task': (uri) => ({
    kind: 'protocol',
    method: 'tasks/update',
    args: { taskId: 't', inputResponses: { q: rootsOf(uri) } },
  }),
}
const reasonsOf = (request: Checked) => checkContent(request, rules).map(({ reason }) => reason)

describe('the URI of a resource or a root', () => {
  for (const [place, requestOf] of Object.entries(places)) {
    it(`names something at the server if its scheme is the server's own: ${place}`, () => {
      for (const uri of names) expect(reasonsOf(requestOf(uri)), uri).to.deep.equal([])
    })

    it(`is judged as a URL or a path if servers fetch or open it: ${place}`, () => {
      for (const [uri, reason] of Object.entries(reached))
        expect(reasonsOf(requestOf(uri)), uri).to.include(reason)
    })
  }

  it('is judged as before in the arguments of a tool, and elsewhere in a response', () => {
    const elsewhere: readonly Checked[] = [
      { kind: 'tool', method: 'tools/call', args: { uri: 'demo://a' } },
      { kind: 'tool', method: 'tools/call', args: rootsOf('demo://a') },
      { kind: 'protocol', method: null, args: { result: { content: rootsOf('demo://a') } } },
      { kind: 'protocol', method: null, args: { result: { uri: 'demo://a' } } },
    ]
    for (const request of elsewhere) expect(reasonsOf(request)).to.include('egress_violation')
  })
})
