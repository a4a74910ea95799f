// Runs examples/runtime-evaluator with its Cedar policies, as its README shows.
import { readFileSync } from 'node:fs'
import { cedarDecider } from '@svc/example-runtime-evaluator/cedar'
import { startEvaluator } from '@svc/example-runtime-evaluator/evaluator'
import { expect } from 'chai'
import { startTestGateway } from '../support/gateway.js'
import { startUpstream } from '../support/upstream.js'

const policies = readFileSync(
  new URL('../../../examples/runtime-evaluator/policy.cedar', import.meta.url),
  'utf8',
)

/** The arguments of a refund, and why the evaluator denies it. */
const refunds: readonly (readonly [object, string | undefined])[] = [
  [{ amount: 500 }, undefined],
  [{ amount: 420.5, note: 'twice', items: [1, 2] }, undefined],
  [{ amount: 500.01 }, 'forbidden by policy1'],
  [{ amount: 0.00001 }, 'a number has more digits than a decimal of Cedar'],
  [{ amount: 1e15 }, 'a number has more digits than a decimal of Cedar'],
  [{ amount: '5' }, 'a policy has an error for these arguments'],
  [{}, 'a policy has an error for these arguments'],
  [{ amount: 5, note: null }, 'Cedar has no null'],
]

describe('examples/runtime-evaluator with Cedar', () => {
  it('decides about arguments by the policies behind a gateway', async () => {
    const evaluator = await startEvaluator({ decider: cedarDecider(policies) })
    try {
      await using billing = await startUpstream()
      await using gateway = await startTestGateway({
        targets: { billing: billing.url },
        runtime: {
          enforcement: { mode: 'remote', remote: { endpoint: evaluator.url, includeArguments: true } },
        },
      })
      for (const [args, reason] of refunds) {
        const response = await gateway.invoke('/mcp/billing/refund_payment@1.0.0', args)
        const { denial_reason, message = '' } = (await response.json()) as Record<string, string>
        expect(denial_reason, JSON.stringify(args)).to.equal(
          reason === undefined ? undefined : 'runtime_denied',
        )
        if (reason !== undefined) expect(message).to.include(reason)
      }
      const others = ['get_invoice', 'delete_customer'].map((tool) =>
        gateway.invoke(`/mcp/billing/${tool}@1.0.0`, {}),
      )
      expect((await Promise.all(others)).map(({ status }) => status)).to.deep.equal([200, 403])
    } finally {
      await evaluator.close()
    }
  })

  it('refuses policies that cannot be parsed', () => {
    expect(() => cedarDecider('permit (principal')).to.throw()
  })
})
