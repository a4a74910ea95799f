import { expect } from 'chai'
import { sourceOfName, uriLookup } from 'svc-sdk/internal/federation/catalog'
import type { ClientRequest } from 'svc-sdk/internal/federation/client-request'
import { ServerHealth } from 'svc-sdk/internal/federation/server-calls'
import { FederationSession } from 'svc-sdk/internal/federation/session'
import { type ListKind, listForms } from 'svc-sdk/internal/mcp/lists'
import { FakeClock } from 'svc-sdk/testing'
import { rejectionOf } from '../../support/rejection.js'

const size = 10_000
const server = 'many'
const scope = 'policy and credentials'
const kinds = Object.keys(listForms) as ListKind[]

/** A request of a client whose only server lists `size` entries, and a count of reads of their names. */
async function requestWith(kind: ListKind, nameOf: (index: number) => string) {
  const clock = new FakeClock()
  const client = { revision: '2025-11-25', capabilities: {}, clientInfo: {} }
  const session = new FederationSession('session', 'acme', client, clock)
  const reads = { count: 0 }
  const entryOf = (_: unknown, index: number) =>
    Object.defineProperty({}, listForms[kind].nameMember, {
      get() {
        reads.count++
        return nameOf(index)
      },
    })
  const list = {
    entries: Array.from({ length: size }, entryOf),
    characters: 0,
    ttlMs: undefined,
    isCut: false,
  }
  const empty = { ...list, entries: [] }
  for (const one of kinds)
    await session.lists.of({ server, kind: one, scope }, 60_000, async () => (one === kind ? list : empty))
  session.usable = { servers: [server], scope, until: Number.POSITIVE_INFINITY, rules: undefined }
  const config = { prefix: 'always', list_ttl_ms: 60_000 }
  const health = new ServerHealth(clock)
  const request = { session, scope, servers: [server], clock, config, health } as unknown as ClientRequest
  return { request, reads }
}

describe('the server of a name or URI', () => {
  const uris = Array.from({ length: 1_000 }, (_, index) => `note://${index}`)

  it('is found for many URIs by reading each entry once', async () => {
    const { request, reads } = await requestWith('resources', (index) => `note://${index}`)
    for (const _listen of [1, 2]) {
      const sourceOf = await uriLookup(request, uris)
      for (const uri of uris) expect(sourceOf(uri)).to.deep.equal({ server, name: uri })
    }
    expect(reads.count).to.equal(size)
  })

  it('is refused if many templates would have to be compared with many URIs', async () => {
    const { request, reads } = await requestWith('resourceTemplates', (index) => `note://{a}-{b}-${index}x`)
    const sourceOf = await uriLookup(request, uris)
    expect(() => uris.map(sourceOf)).to.throw('too many templates')
    expect(reads.count).to.equal(size)
    const [wrapped = ''] = uris.map((uri) => `svc:${server}/${uri}`)
    expect(sourceOf(wrapped)).to.deep.equal({ server, name: uris[0] })
  })

  it('is found for shortened and unknown names by reading each entry once', async () => {
    const { request, reads } = await requestWith('tools', (index) => `tool ${index}`)
    for (let call = 0; call < 20; call++) {
      const unknown = `${server}_tool_${String(call).padStart(16, '0')}`
      expect(await rejectionOf(sourceOfName(request, 'tools', unknown))).to.have.property(
        'message',
        'Unknown tool: no such name.',
      )
    }
    expect(reads.count).to.equal(size)
  })
})
