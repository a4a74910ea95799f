import { bind, tokens } from '@svc/core'
import { expect } from 'chai'
import type { OperationRequest } from 'svc-sdk/internal/admin/operation'
import { healthOperation } from 'svc-sdk/internal/console/health-operation'
import type { ProcessFacts } from 'svc-sdk/internal/console/process-facts'
import { FakeClock } from 'svc-sdk/testing'
import { container as root } from 'tsyringe'

const clock = new FakeClock()
const today = clock.now() + 1_000
const limit = (used: number, resetAt = today) => ({
  tenant: 't',
  key: 'mcp://files/read',
  used,
  limit: 10,
  resetAt,
})

/** What operators see if the process knows this. */
async function shown(facts: Partial<Pick<ProcessFacts, 'healthParts' | 'limitsInUse'>>): Promise<unknown> {
  const container = root.createChildContainer()
  bind(container, tokens.Clock, { useValue: clock })
  const all = { healthParts: () => [], limitsInUse: () => [], ...facts }
  return healthOperation(all).run({ policy: { container }, query: {} } as unknown as OperationRequest)
}

describe('the health of a gateway', () => {
  it('has each part as it is, and the limits of the day', async () => {
    const warning = { name: 'quotas', state: 'warning', reason: 'slow' } as const
    const down = { name: 'audit', state: 'down', reason: 'full' } as const
    const health = await shown({
      healthParts: () => [warning, down],
      limitsInUse: () => [limit(4), limit(9, clock.now() - 1)],
    })
    expect(health).to.deep.equal({
      ready: false,
      parts: [warning, down],
      limits: [
        {
          tenant: 't',
          key: 'mcp://files/read',
          used: 4,
          limit: 10,
          resets_at: new Date(today).toISOString(),
        },
      ],
    })
  })

  it('has limits in the order of how full they are, where one of 0 is full', async () => {
    const of = (key: string, used: number, max: number) => ({ ...limit(used), key, limit: max })
    const counted = [of('low', 1, 10), of('none', 0, 0), of('high', 9, 10), of('half', 5, 10)]
    const { limits } = (await shown({ limitsInUse: () => counted })) as { limits: { key: string }[] }
    expect(limits.map(({ key }) => key)).to.deep.equal(['none', 'high', 'half', 'low'])
  })
})
