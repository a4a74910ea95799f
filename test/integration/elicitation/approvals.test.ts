// A client that can open a page for its person is asked to, while the call waits: by the real SDKs, over every route.
import { expect } from 'chai'
import { eras, idIn, isOfOneServer, routes, sharedBilling, startGateway, waiting } from './rig.js'

const accept = { action: 'accept' }

describe('a call that waits for an approval, of a client that can open its page', function () {
  this.timeout(60_000)
  const billing = sharedBilling()

  for (const route of routes) {
    for (const client of eras) {
      for (const server of eras) {
        if (isOfOneServer(route) && client === 'handshake' && server === 'stateless') continue
        it(`runs in one call once it is approved: ${client} client, ${route}, ${server} server`, async () => {
          await using gateway = await startGateway(route, billing.urls[server])
          await using one = await gateway.connect(
            async (request) => {
              // Before the client has even said that it opens the page.
              await gateway.vote(idIn(request), 'approve')
              return accept
            },
            { era: client },
          )
          expect(await one.refund(240)).to.equal('refunded 240')
          expect(billing.refunds).to.deep.equal([240])
          expect(one.asked).to.have.length(1)
          const [request = { message: '' }] = one.asked
          expect(request.mode).to.equal('url')
          expect(request.url).to.match(/^http:\/\/localhost:\d+\/console\/approvals\/esc_[0-9a-f]+$/)
          expect(request.message).to.contain('A person approves refunds')
          // By 2026-07-28 an elicitation has no id.
          const isStateless = client === 'stateless' && (!isOfOneServer(route) || server === 'stateless')
          expect(request.elicitationId === undefined).to.equal(isStateless)
          if (client === 'handshake') expect(one.completed).to.deep.equal([idIn(request)])
          const used = gateway.records().filter(({ tool }) => tool === 'escalations/use@1')
          expect(used).to.have.length(1)
        })
      }
    }
  }

  const briefly = { ...waiting, server: { mcp: { elicit_ms: 300 } } }
  const pending = /Escalation esc_[0-9a-f]+.*repeat the same call/

  for (const route of ['/mcp/billing', '/mcp'] as const) {
    for (const era of eras) {
      describe(`${era} client, ${route}`, () => {
        const server = era

        for (const action of ['decline', 'cancel'] as const) {
          it(`does not wait after ${action}, and stays pending`, async () => {
            await using gateway = await startGateway(route, billing.urls[server])
            await using one = await gateway.connect(() => ({ action }), { era })
            expect(await one.refund(1)).to.match(pending)
            expect(billing.refunds).to.deep.equal([])
            const { json } = await gateway.admin('/api/escalations?status=pending')
            expect(json['escalations']).to.have.length(1)
          })
        }

        it('gets the response of today if nobody decides in time, and runs once it is repeated', async () => {
          await using gateway = await startGateway(route, billing.urls[server], briefly)
          let id = ''
          await using one = await gateway.connect(
            (request) => {
              id = idIn(request)
              return accept
            },
            { era },
          )
          expect(await one.refund(1)).to.match(pending)
          await gateway.vote(id, 'approve')
          expect(await one.refund(1)).to.equal('refunded 1')
          expect(one.asked).to.have.length(1)
        })

        it('is told of a rejection at once', async () => {
          await using gateway = await startGateway(route, billing.urls[server])
          await using one = await gateway.connect(
            async (request) => {
              await gateway.vote(idIn(request), 'reject')
              return accept
            },
            { era },
          )
          expect(await one.refund(1)).to.contain('A person decided against billing/refund')
          expect(billing.refunds).to.deep.equal([])
        })

        it('sends one of two equal calls that wait for one approval', async () => {
          await using gateway = await startGateway(route, billing.urls[server])
          const ids: string[] = []
          await using one = await gateway.connect(
            async (request) => {
              ids.push(idIn(request))
              if (ids.length === 2) await gateway.vote(idIn(request), 'approve')
              return accept
            },
            { era },
          )
          const texts = await Promise.all([one.refund(7), one.refund(7)])
          expect(new Set(ids).size).to.equal(1)
          expect(billing.refunds).to.deep.equal([7])
          expect(texts.filter((text) => text === 'refunded 7')).to.have.length(1)
          expect(texts.find((text) => text !== 'refunded 7')).to.contain('for one call')
        })

        it('gets its response when the gateway shuts down', async () => {
          await using gateway = await startGateway(route, billing.urls[server])
          let closing: Promise<void> | undefined
          await using one = await gateway.connect(
            () => {
              closing = gateway.close()
              return accept
            },
            { era },
          )
          expect(await one.refund(1)).to.match(
            era === 'handshake' ? pending : /Escalation|shutting down|fetch/,
          )
          await closing
          expect(billing.refunds).to.deep.equal([])
        })

        it('asks a client that declares no page nothing', async () => {
          await using gateway = await startGateway(route, billing.urls[server])
          await using one = await gateway.connect(() => accept, { era, capabilities: { elicitation: {} } })
          expect(await one.refund(1)).to.match(pending)
          expect(one.asked).to.deep.equal([])
        })
      })
    }
  }

  it('is not asked about without an admin listener, or if the policy holds no calls', async () => {
    for (const settings of [{ rules: waiting.rules }, { ...waiting, server: { mcp: { elicit_ms: 0 } } }]) {
      await using gateway = await startGateway('/mcp/billing', billing.urls.handshake, settings)
      await using one = await gateway.connect(() => accept)
      expect(await one.refund(1)).to.match(pending)
      expect(one.asked).to.deep.equal([])
    }
  })
})
