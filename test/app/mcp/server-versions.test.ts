import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { serverVersionIn } from 'svc-sdk/internal/mcp/handshake'
import { ServerVersions } from 'svc-sdk/internal/mcp/server-versions'
import { mcpState } from '../../support/mcp-state.js'
import { rejectionOf } from '../../support/rejection.js'

const target = new URL('http://127.0.0.1:1/mcp')

/** A server whose probes respond when the test lets them. */
class Asked {
  count = 0
  now = 0
  readonly #responses: ((version: string | undefined) => void)[] = []
  readonly #clock = { now: () => this.now, monotonic: () => this.now }
  readonly versions = new ServerVersions(
    () => {
      this.count++
      return new Promise((resolve) => this.#responses.push(resolve))
    },
    mcpState(this.#clock),
    this.#clock,
  )

  response(version: string | undefined): void {
    this.#responses.shift()?.(version)
  }
}

describe("a server's version", () => {
  it('is the one that passed through while the probe ran', async () => {
    const asked = new Asked()
    const waiting = asked.versions.of(target)
    await asked.versions.learn(target, '2.0.0')
    asked.response('1.0.0')
    expect(await waiting).to.equal('2.0.0')
    expect(asked.versions.known(target)).to.equal('2.0.0')
  })

  it('is `unversioned` if the server names none, and is requested again later', async () => {
    const asked = new Asked()
    const first = asked.versions.of(target)
    asked.response(undefined)
    expect(await first).to.equal('unversioned')
    asked.now = 59_999
    expect(await asked.versions.of(target)).to.equal('unversioned')
    asked.now = 60_000
    const again = asked.versions.of(target)
    asked.response('3.0.0')
    expect(await again).to.equal('3.0.0')
  })

  it('is an error if the server cannot be reached, and the next call requests it again', async () => {
    let count = 0
    const refusal = new Refusal('UPSTREAM_UNREACHABLE', 'down')
    const clock = { now: () => 0, monotonic: () => 0 }
    const probe = () => (count++ === 0 ? Promise.reject(refusal) : Promise.resolve('1'))
    const versions = new ServerVersions(probe, mcpState(clock), clock)
    const error = await rejectionOf(Promise.resolve(versions.of(target)))
    expect(error).to.equal(refusal)
    expect(await versions.of(target)).to.equal('1')
  })

  it('is read from the handshake and from the metadata of later revisions', () => {
    expect(serverVersionIn({ serverInfo: { name: 'a', version: '1.2.3' } })).to.equal('1.2.3')
    expect(
      serverVersionIn({ _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'a', version: '4' } } }),
    ).to.equal('4')
  })

  for (const version of [undefined, 7, '', '.', '..', 'a\nb', '\ud800', 'x'.repeat(257)]) {
    it(`is not read from ${JSON.stringify(version)?.slice(0, 20)}`, () => {
      expect(serverVersionIn({ serverInfo: { version } })).to.equal(undefined)
    })
  }
})
