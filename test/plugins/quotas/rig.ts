// The quotas stage at noon, and calls with limits for it.
import { type Call, type Limit, limits, type Outcome, type QuotaAdapter, type Stage } from '@svc/core'
import { MemoryQuotaAdapter, quotasPlugin } from '@svc/plugin-quotas'
import { FakeClock } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { StageRig, send, sendWithHolds, served } from '../../support/stage-rig.js'

export const NOON = Date.UTC(2026, 5, 15, 12)
export const KEY = 'mcp://files/echo'

export class QuotasRig extends StageRig {
  readonly memory = new MemoryQuotaAdapter(this.clock)

  constructor() {
    super({}, new FakeClock(NOON))
  }

  started(adapter: QuotaAdapter = this.memory): Promise<Stage> {
    return this.start(quotasPlugin, { adapter })
  }

  /** How many calls of a day's 100 are left. */
  async remaining(key: string): Promise<number> {
    let left = 0
    while ((await this.memory.incrDaily('acme', key, 100)).count <= 100) left++
    for (let i = 0; i < left; i++) await this.memory.refundDaily('acme', key)
    return left
  }
}

export function limited(...apply: Partial<Limit>[]): Call {
  const call = makeCall()
  call.set(
    limits,
    apply.map((limit) => ({ key: KEY, level: 'tenant', ...limit })),
  )
  return call
}

/** As the gateway runs it: with holds released. */
export function run(stage: Stage, call: Call, upstream: Outcome = served): Promise<Outcome> {
  return sendWithHolds('quotas', stage, call, async () => upstream)
}

/** One call with one limit through a started stage. */
export async function countOne(stage: Stage, limit: Partial<Limit> = { callsPerDay: 10 }): Promise<Outcome> {
  return (await send(stage, limited(limit))).outcome
}
