import { expect } from 'chai'
import { ofSuite } from '../../support/parts.js'
import { compareReadings, error, ReadersGateway } from './experiment.js'
import { compareMembers } from './members.js'
import type { GeneratedRequest } from './requests.js'

const seed = Number(process.env['SVC_SEED'] ?? 1)

describe('a request that an upstream reads', () => {
  const gateway = ofSuite(() => new ReadersGateway().start())

  it('names the tool that was recorded and allowed', async () => {
    const { requests, sent } = await compareReadings(seed, 6_000)
    // Otherwise nothing was compared.
    expect(sent / requests, `SVC_SEED=${seed}`).to.be.greaterThan(0.05)
  })

  it('has the same value in every JSON parser, as has the response, and the hash of the record is of that value', async () => {
    const { sent } = await compareMembers(seed, 1_500)
    expect(sent, `SVC_SEED=${seed}`).to.be.greaterThan(300)
  })

  const detour = 'get_invoice@1.0%2F..%2Fdelete_customer%401.0.0'
  const nfd = 'get_e\u0301'
  const refused: ReadonlyArray<readonly [string, GeneratedRequest]> = [
    ['a version with separators over the invoke protocol', { face: 'invoke', text: detour }],
    ['a version with separators in an A2A call', { face: 'a2a', text: detour }],
    ['a version with separators for an MCP target', { face: 'invoke-mcp', text: detour }],
    ['a version with separators in an A2A call of an MCP target', { face: 'a2a-mcp', text: detour }],
    ['a name with dots', { face: 'invoke', text: 'get_invoice%2F..%2Fdelete_customer@1.0.0' }],
    ['a name with backslashes', { face: 'invoke', text: 'get_invoice%5C..%5Cdelete_customer@1.0.0' }],
    ['a name encoded twice', { face: 'invoke', text: 'get_x%252F..%252Fdelete_customer@1.0.0' }],
    ['a name with dots over MCP', { face: 'tool', text: 'get_x/../delete_customer' }],
    ['a prompt with dots', { face: 'prompt', text: 'get_x/../delete_customer' }],
    ['a tool in NFD', { face: 'tool', text: nfd }],
    ['a prompt in NFD', { face: 'prompt', text: nfd }],
    ['a tool in NFD over the invoke protocol', { face: 'invoke', text: `${nfd}@1.0.0` }],
    ['an encoded slash in a file URI', { face: 'resource', text: 'file:///srv/public/..%2fsecret%2fkey' }],
    ['a host in capitals', { face: 'resource', text: 'https://INTERNAL.example/admin' }],
    ['a default port', { face: 'resource', text: 'https://internal.example:443/admin' }],
    ['a user', { face: 'resource', text: 'https://u@internal.example/admin' }],
    ['an encoded dot in a host', { face: 'resource', text: 'https://internal%2eexample/admin' }],
    ['an encoded dot in a path', { face: 'resource', text: 'https://public.example/%2e%2e/admin' }],
  ]
  for (const [what, request] of refused) {
    it(`is refused with one record, and not sent, with ${what}`, async () => {
      const reading = await gateway.read(request)
      expect(reading.sent).to.equal(undefined)
      expect(reading.records).to.equal(1)
      const isMcp = ['tool', 'prompt', 'resource'].includes(request.face)
      expect(reading.status).to.equal(isMcp ? 200 : 400)
      expect(JSON.parse(reading.body)).to.have.nested.property(
        isMcp ? 'error.code' : 'error',
        isMcp ? -32602 : 'BAD_REQUEST',
      )
      if (!isMcp) expect(reading.recorded).to.equal('unknown@unversioned')
    })
  }

  for (const [what, request] of [
    ['a name with a slash', { face: 'invoke', text: 'get_a%2Fb@1.0.0' }],
    ['a name with an at sign in a message', { face: 'a2a-mcp', text: 'get_a%40b@1.0.0' }],
    ['a name with a percent sign', { face: 'invoke-mcp', text: 'get_100%25@1.0.0' }],
    ['a name in NFC', { face: 'tool', text: 'get_é' }],
    ['a URI with spaces', { face: 'resource', text: 'file:///srv/public/a%20b' }],
  ] as const) {
    it(`is sent with ${what}`, async () => {
      const reading = await gateway.read(request)
      expect(reading.status).to.equal(200)
      expect(reading.sent).to.not.equal(undefined)
      expect(error(request, reading)).to.equal(undefined)
    })
  }
})
