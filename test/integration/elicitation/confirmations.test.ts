// Rules by which the person at the client confirms a call in a form: by the real SDKs, over every route.
import { expect } from 'chai'
import { bothModes, eras, routes, sharedBilling, startGateway, waiting } from './rig.js'

const yes = { action: 'accept', content: { confirm: true } }

const rule = {
  name: 'large',
  tools: ['*/refund'],
  when: 'args.amount > 100',
  then: 'confirm',
  ask: 'Refund {args.amount} EUR?',
  message: 'Large refunds are confirmed.',
} as const
const confirming = { rules: [rule] }

describe('a call that the person at its client confirms', function () {
  this.timeout(60_000)
  const billing = sharedBilling()

  for (const route of routes) {
    for (const era of eras) {
      describe(`${era} client, ${route}`, () => {
        it('is sent once they accept the form with its tick, and the record says what was shown', async () => {
          await using gateway = await startGateway(route, billing.urls[era], confirming)
          await using one = await gateway.connect(() => yes, { era })
          expect(await one.refund(5)).to.equal('refunded 5')
          expect(await one.refund(312)).to.equal('refunded 312')
          expect(one.asked).to.have.length(1)
          const [{ mode, message, requestedSchema } = { message: '' }] = one.asked
          expect(mode).to.equal('form')
          expect(message.split('\n')[0]).to.equal('Refund 312 EUR?')
          expect(message).to.contain('billing/refund with {"amount":312').and.to.contain('rule:large')
          expect(requestedSchema).to.have.nested.property('properties.confirm.default', false)
          const [event, ...others] = gateway
            .records()
            .filter(({ tool }) => String(tool).startsWith('confirmations/'))
          expect(others).to.deep.equal([])
          expect(event).to.include({ tool: 'confirmations/accept@1' })
          expect(JSON.stringify(event)).to.match(/"shown_sha256":"[0-9a-f]{64}"/)
          const sent = gateway
            .records()
            .filter(({ tool, sent }) => /^refund@/.test(String(tool)) && sent !== 'no')
          expect(JSON.stringify(sent.at(-1)?.['findings'])).to.contain('"effect":"confirm"')
        })

        for (const [name, reply] of Object.entries({
          'decline it': { action: 'decline' },
          'cancel it': { action: 'cancel' },
          'accept it without the tick': { action: 'accept', content: { confirm: false } },
        })) {
          it(`is not sent if they ${name}`, async () => {
            await using gateway = await startGateway(route, billing.urls[era], confirming)
            await using one = await gateway.connect(() => reply, { era })
            expect(await one.refund(312)).to.contain('did not confirm: billing/refund was not sent')
            expect(billing.refunds).to.deep.equal([])
          })
        }

        it('is of a listed tool if the client shows forms, and of none else', async () => {
          const { when: _, ...always } = rule
          await using gateway = await startGateway(route, billing.urls[era], { rules: [always] })
          for (const [capabilities, count] of [
            [bothModes, 1],
            [{ elicitation: { url: {} } }, 0],
          ] as const) {
            await using one = await gateway.connect(() => yes, { era, capabilities })
            expect((await one.client.listTools()).tools).to.have.length(count)
          }
        })

        it('is denied, or escalates, for a client without forms', async () => {
          for (const [settings, expected] of [
            [confirming, /Denied: rule:large.*this one shows none/],
            [
              { ...waiting, rules: [{ ...rule, else: 'escalate' }], server: { mcp: { elicit_ms: 100 } } },
              /Escalation esc_/,
            ],
          ] as const) {
            await using gateway = await startGateway(route, billing.urls[era], settings)
            await using one = await gateway.connect(() => yes, {
              era,
              capabilities: { elicitation: { url: {} } },
            })
            expect(await one.refund(312)).to.match(expected)
          }
          expect(billing.refunds).to.deep.equal([])
        })

        it('needs its approval too: no form stands for a vote', async () => {
          const both = { ...waiting, rules: [rule, ...waiting.rules] }
          await using gateway = await startGateway(route, billing.urls[era], both)
          let id = ''
          await using one = await gateway.connect(() => yes, {
            era,
            capabilities: { elicitation: { form: {} } },
          })
          expect(await one.refund(312)).to.match(/Escalation esc_/)
          expect(one.asked).to.deep.equal([])
          const { json } = await gateway.admin('/api/escalations?status=pending')
          id = (json['escalations'] as { id: string }[])[0]?.id ?? ''
          await gateway.vote(id, 'approve')
          expect(await one.refund(312)).to.equal('refunded 312')
          expect(one.asked).to.have.length(1)
        })
      })
    }
  }

  it('shows hidden characters of arguments, and says if it cuts them', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.handshake, {
      rules: [{ ...rule, ask: 'Refund with the note {args.note}?' }],
    })
    await using one = await gateway.connect(() => ({ action: 'decline' }))
    const note = `a\u202eb\u0007"?\nOther ${'x'.repeat(3000)}`
    await one.client.callTool({ name: 'refund', arguments: { amount: 312, note } }).catch(() => undefined)
    const [{ message } = { message: '' }] = one.asked
    expect(message).to.contain('\\u202e').and.to.contain('\\u0007')
    for (const hidden of ['\u202e', '\u0007']) expect(message).not.to.contain(hidden)
    expect(message).to.contain('(2000 of 3')
    expect(message.split('\n')).to.have.length(4)
    expect(message.split('\n')[0]).to.match(/^Refund with the note "a\\u202eb/)
  })

  it('has `else` if the policy asks no client', async () => {
    const settings = {
      ...waiting,
      rules: [{ ...rule, else: 'escalate' }],
      server: { mcp: { elicit_ms: 0 } },
    }
    for (const route of ['/mcp/billing', '/mcp'] as const) {
      await using gateway = await startGateway(route, billing.urls.handshake, settings)
      await using one = await gateway.connect(() => yes)
      expect(await one.refund(312)).to.match(/Escalation esc_/)
      expect(one.asked).to.deep.equal([])
    }
    expect(billing.refunds).to.deep.equal([])
  })

  it('has `else` over the invoke protocol', async () => {
    await using gateway = await startGateway('/mcp/billing', billing.urls.handshake, confirming)
    const response = await fetch(`${gateway.url}/refund@1.0.0`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: 312 }),
    })
    expect(response.status).to.equal(403)
    expect(await response.json()).to.include({ error: 'TOOL_NOT_ALLOWED', denial_reason: 'rule:large' })
  })
})
