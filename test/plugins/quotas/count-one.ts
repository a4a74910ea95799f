// One call with one limit through a started quotas stage.
import { type Limit, limits, type Outcome, type Stage } from '@svc/core'
import { makeCall } from '../../support/call.js'

export const served: Outcome = {
  kind: 'completed',
  sent: 'yes',
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: new Uint8Array(),
}

export async function countOne(stage: Stage, limit: Partial<Limit> = { callsPerDay: 10 }): Promise<Outcome> {
  const call = makeCall()
  call.set(limits, [{ key: 'mcp://files/echo@1.0.0', level: 'tenant', ...limit }])
  return stage.handle(call, async () => served)
}
