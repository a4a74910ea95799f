// The quotas stage on a clock that stands still, and calls with limits for it.
import {
  bind,
  type Call,
  type Limit,
  limits,
  type Outcome,
  type QuotaAdapter,
  type Stage,
  tokens,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { MemoryQuotaAdapter, quotasPlugin } from '@svc/plugin-quotas'
import { createStage } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'

export const NOON = Date.UTC(2026, 5, 15, 12)
export const KEY = 'mcp://files/echo'

export const served: Outcome = {
  kind: 'completed',
  sent: 'yes',
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: new Uint8Array(),
}

export class QuotasRig {
  now = NOON
  readonly memory = new MemoryQuotaAdapter({ now: () => this.now })

  async started(adapter: QuotaAdapter = this.memory): Promise<Stage> {
    const context = makeContext()
    bind(context.container, tokens.Clock, { useValue: { now: () => this.now, monotonic: () => this.now } })
    const stage = createStage(quotasPlugin, { adapter }, context)
    await stage.start?.(new AbortController().signal)
    return stage
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
export async function run(stage: Stage, call: Call, upstream: Outcome = served): Promise<Outcome> {
  return new Pipeline([{ name: 'quotas', stage }], async () => upstream).run(call)
}

/** One call with one limit through a started stage. */
export async function countOne(stage: Stage, limit: Partial<Limit> = { callsPerDay: 10 }): Promise<Outcome> {
  return stage.handle(limited(limit), async () => served)
}
