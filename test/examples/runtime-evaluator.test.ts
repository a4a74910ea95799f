// Runs examples/runtime-evaluator with its rules and its policy, as its README shows.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Evaluator, startEvaluator } from '@svc/example-runtime-evaluator/evaluator'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { startTestGateway } from '../support/gateway.js'
import { runPolicy } from '../support/policy-command.js'
import { startUpstream } from '../support/upstream.js'

const home = new URL('../../../examples/runtime-evaluator/', import.meta.url)
const rules = JSON.parse(readFileSync(new URL('rules.json', home), 'utf8'))

describe('examples/runtime-evaluator', () => {
  let evaluator: Evaluator

  beforeEach(async () => {
    evaluator = await startEvaluator({ rules })
  })

  afterEach(() => evaluator.close())

  it('has a policy that is accepted', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-runtime-'))
    const policy = join(directory, 'policy.yaml')
    copyFileSync(new URL('policy.yaml', home), policy)
    generateKeyFile(join(directory, '.svc/signing.key'))
    const { lines } = await runPolicy(['check', policy])
    expect(lines.at(-1)).to.match(/policy\.yaml: OK, \d stages: .*runtime, enforcement/)
    rmSync(directory, { recursive: true })
  })

  it('denies refunds and takes the customer out of invoices', async () => {
    await using billing = await startUpstream((_call, response) => {
      response.setHeader('content-type', 'application/json')
      response.end('{"id":"INV-1001","customer":"Ada","note":"ada@example.com"}')
    })
    await using gateway = await startTestGateway({
      targets: { billing: billing.url },
      runtime: { enforcement: { mode: 'remote', remote: { endpoint: evaluator.url } } },
    })
    const refund = await gateway.invoke('/mcp/billing/refund_payment@1.0.0')
    expect(await refund.json()).to.include({ denial_reason: 'runtime_denied', sent: false })
    const invoice = await gateway.invoke('/mcp/billing/get_invoice@1.0.0')
    expect(await invoice.json()).to.deep.equal({
      id: 'INV-1001',
      customer: '[redacted]',
      note: '[redacted]',
    })
  })

  it('refuses other requests than those of the protocol, and requests without its key', async () => {
    const post = (url: string, body: string, headers = {}) =>
      fetch(url, { method: 'POST', headers, body }).then(({ status }) => status)
    expect(await post(evaluator.url, '{')).to.equal(400)
    expect(await post(evaluator.url, '{"protocolVersion":"1"}')).to.equal(400)
    expect(await post(evaluator.url.replace('/evaluate', '/'), '{}')).to.equal(404)
    const closed = await startEvaluator({ apiKey: 'k' })
    try {
      expect(await post(closed.url, '{}')).to.equal(401)
      expect(await post(closed.url, '{}', { authorization: 'Bearer k' })).to.equal(400)
    } finally {
      await closed.close()
    }
  })
})
