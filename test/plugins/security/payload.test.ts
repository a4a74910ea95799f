import { type Failed, Refusal, type ResponseStream, type Settlement } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { bytesOf, responseOf, run, streamOf } from './rig.js'

const security = { limits: { max_payload_kb: 1 } }
const LENIENT: [name: string, enforcement: object][] = [
  ['in observe mode', { mode: 'observe' }],
  ['if deny_on does not name it', { deny_on: ['version_unpinned'] }],
]

describe('security: payload size', () => {
  describe('of the request', () => {
    const sending = (bytes: number) => makeCall({ request: { bytes } })

    it('is allowed up to 1024 bytes per kilobyte', async () => {
      const call = sending(1024)
      expect((await run({ security }, call)).kind).to.equal('completed')
      expect(call.findings).to.deep.equal([])
    })

    it('is refused with one byte more, and nothing is sent', async () => {
      const outcome = await run({ security }, sending(1025), async () => {
        throw new Error('sent')
      })
      expect(outcome).to.deep.include({
        kind: 'denied',
        code: 'PAYLOAD_TOO_LARGE',
        message: 'Denied: payload_too_large (security, gateway): the request has 1025 bytes, more than 1024.',
        denial: { level: 'gateway', type: 'security', reason: 'payload_too_large' },
      })
    })

    it('may be a fraction of a kilobyte', async () => {
      const half = { limits: { max_payload_kb: 0.5 } }
      expect((await run({ security: half }, sending(512))).kind).to.equal('completed')
      expect((await run({ security: half }, sending(513))).kind).to.equal('denied')
    })

    for (const [when, enforcement] of LENIENT) {
      it(`is only recorded ${when}`, async () => {
        const call = sending(2000)
        expect((await run({ security, enforcement }, call)).kind).to.equal('completed')
        expect(call.findings.map(({ reason }) => reason)).to.deep.equal(['payload_too_large'])
      })
    }
  })

  describe('of a whole response', () => {
    it('may be the limit', async () => {
      expect(
        await bytesOf(await run({ security }, makeCall(), async () => responseOf(new Uint8Array(1024)))),
      ).to.equal(1024)
    })

    it('is refused with one byte more, after the call was sent', async () => {
      const outcome = await run({ security }, makeCall(), async () => responseOf(new Uint8Array(1025)))
      expect(outcome).to.deep.include({
        kind: 'denied',
        code: 'PAYLOAD_TOO_LARGE',
        message: 'Denied: payload_too_large (security, gateway): the response has more than 1024 bytes.',
        denial: { level: 'gateway', type: 'security', reason: 'payload_too_large' },
      })
    })

    for (const [when, enforcement] of LENIENT) {
      it(`is only recorded ${when}`, async () => {
        const call = makeCall()
        const outcome = await run({ security, enforcement }, call, async () =>
          responseOf(new Uint8Array(2000)),
        )
        expect(await bytesOf(outcome)).to.equal(2000)
        expect(call.findings.map(({ reason }) => reason)).to.deep.equal(['payload_too_large'])
      })
    }
  })

  describe('of a streamed response', () => {
    it('is allowed up to the limit', async () => {
      const body = streamOf(500, 524)
      expect(await bytesOf(await run({ security }, makeCall(), async () => responseOf(body)))).to.equal(1024)
    })

    it('is terminated over the limit, closes the upstream, and settles as too large', async () => {
      const body = streamOf(1000, 25, 1000)
      const call = makeCall()
      const settlements: Settlement[] = []
      call.onSettle((settlement) => {
        settlements.push(settlement)
      })
      const outcome = await run({ security }, call, async () => responseOf(body))
      const error = await bytesOf(outcome).catch((thrown: unknown) => thrown)
      expect(error).to.be.instanceOf(Refusal).and.to.have.property('code', 'PAYLOAD_TOO_LARGE')
      expect(body).to.include({ closed: true, read: 2 })
      expect(settlements).to.have.lengthOf(1)
      expect(settlements[0]).to.include({ error: 'PAYLOAD_TOO_LARGE', bytes: 1000 })
    })

    it('does not start with a content-length over the limit', async () => {
      const body = streamOf(1025)
      const call = makeCall()
      const outcome = await run({ security }, call, async () =>
        responseOf(body, { 'content-length': '1025' }),
      )
      expect(outcome).to.include({ kind: 'denied', code: 'PAYLOAD_TOO_LARGE' })
      expect(body.read).to.equal(0)
      expect(call.signal.aborted).to.equal(true)
    })

    for (const [when, enforcement] of LENIENT) {
      it(`is only recorded, once, ${when}`, async () => {
        for (const headers of [{}, { 'content-length': '3000' }]) {
          const call = makeCall()
          const outcome = await run({ security, enforcement }, call, async () =>
            responseOf(streamOf(1000, 1000, 1000), headers),
          )
          expect(await bytesOf(outcome)).to.equal(3000)
          expect(call.findings).to.have.lengthOf(1)
        }
      })
    }

    it('ends with the error message of the protocol', async () => {
      const body: ResponseStream = {
        async *[Symbol.asyncIterator]() {
          yield { bytes: new Uint8Array(10) }
          yield {
            bytes: new Uint8Array(2000),
            response: { digest: 'd', instead: ({ code }: Failed) => new TextEncoder().encode(code) },
          }
          yield { bytes: new Uint8Array(10) }
        },
      }
      const call = makeCall()
      const settlements: Settlement[] = []
      call.onSettle((settlement) => {
        settlements.push(settlement)
      })
      const outcome = await run({ security }, call, async () => responseOf(body))
      expect(await bytesOf(outcome)).to.equal(10 + 'PAYLOAD_TOO_LARGE'.length)
      expect(settlements[0]).to.include({ error: 'PAYLOAD_TOO_LARGE', digest: null })
    })

    it("has a separate limit for each chunk of an MCP session's stream", async () => {
      const request = { kind: 'protocol', reference: 'mcp://files/' } as const
      const long = await run({ security }, makeCall({ request }), async () =>
        responseOf(streamOf(1000, 1000, 1000)),
      )
      expect(await bytesOf(long)).to.equal(3000)
      const large = await run({ security }, makeCall({ request }), async () =>
        responseOf(streamOf(1000, 1025)),
      )
      expect(await bytesOf(large).catch((thrown: unknown) => thrown)).to.be.instanceOf(Refusal)
    })
  })

  it('does not change a failed call', async () => {
    const outcome = await run({ security }, makeCall(), async () => ({
      kind: 'failed',
      code: 'UPSTREAM_UNREACHABLE',
      message: 'gone',
    }))
    expect(outcome).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
  })
})
