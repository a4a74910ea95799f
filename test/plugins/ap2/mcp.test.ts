import { issueMandates } from '@svc/plugin-ap2/dev'
import { expect } from 'chai'
import type { GatewayOptions } from 'svc-sdk'
import { startTestGateway } from '../../support/gateway.js'
import { json, result, serverOf } from '../../support/mcp-server.js'
import { args, issuance, section } from './rig.js'

describe('mandates over MCP', () => {
  describe('go upstream only if they were verified', () => {
    for (const [title, over] of [
      ['in report-only mode', { mode: 'observe' }],
      ['for a tool that mandates do not apply to', { tools: { allow: ['shop/other'] } }],
    ] as [string, Partial<GatewayOptions['ap2']>][]) {
      it(title, async () => {
        const sent: unknown[] = []
        const { upstream } = await serverOf((message, response) => {
          sent.push(message)
          json(response, result(message))
        })
        const gateway = await startTestGateway({
          targets: { shop: `${upstream.url}/mcp` },
          ap2: { ...section, ...over },
        })
        try {
          const accept = 'application/json, text/event-stream'
          const issuedAt = Math.floor(Date.now() / 1000)
          const [good, bad] = await Promise.all(
            [{}, { audience: 'other' }].map((more) =>
              issueMandates('chain', { ...issuance, issuedAt, ...more }),
            ),
          )
          for (const mandates of [bad, good]) {
            const params = { name: 'buy', arguments: args, _meta: { 'x-ap2-bundle': mandates, other: 1 } }
            await gateway.invoke(
              '/mcp/shop',
              { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
              { accept },
            )
          }
          const metas = sent.flatMap((message) => {
            const { method, params } = message as { method?: string; params?: { _meta?: object } }
            return method === 'tools/call' ? [Object.keys(params?._meta ?? {})] : []
          })
          expect(metas).to.deep.equal([
            ['other'],
            over?.mode === 'observe' ? ['x-ap2-bundle', 'other'] : ['other'],
          ])
        } finally {
          await gateway[Symbol.asyncDispose]()
          await upstream[Symbol.asyncDispose]()
        }
      })
    }
  })

  it('are read from _meta under the names of the headers', async () => {
    const { upstream } = await serverOf((message, response) => json(response, result(message)))
    const gateway = await startTestGateway({ targets: { shop: `${upstream.url}/mcp` }, ap2: section })
    try {
      const issuedAt = Math.floor(Date.now() / 1000)
      const mandates = await issueMandates('chain', { ...issuance, issuedAt })
      const ask = async (meta: object, headers: Record<string, string> = {}) => {
        const params = { name: 'buy', arguments: args, _meta: meta }
        const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
        const accept = 'application/json, text/event-stream'
        return (await gateway.invoke('/mcp/shop', message, { accept, ...headers })).text()
      }
      const meta = { 'x-ap2-bundle': mandates }
      expect(await ask({})).to.contain('ap2_missing')
      const other = {
        'x-ap2-cart-mandate': String((await issueMandates('jws', { ...issuance, issuedAt }))['checkout']),
      }
      expect(await ask({ 'x-ap2-cart-mandate': mandates['checkout'] }, other)).to.contain(
        'ap2_mandate_conflict',
      )
      expect(await ask(meta)).to.not.contain('ap2_')
      expect(await ask(meta)).to.contain('ap2_replayed')
      expect(gateway.records().at(-2)?.agentMetadata).to.have.nested.property('ap2.verified', true)
    } finally {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    }
  })
})
