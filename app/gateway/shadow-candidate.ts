// A candidate policy beside the one in force, as the judge runs it: no store of the gateway, no runtime, no token, no notice.

import { type Call, type CallRequest, clientForms, type Identity, judgedOnly, trustedCaller } from '@svc/core'
import { defined } from '@svc/core/json'
import { CallControl } from '@svc/core/pipeline'
import type { Policy } from '../policy/config.js'
import type { PolicyPlace } from '../policy/facts.js'
import { Judge } from '../policy-tools/judge/judge.js'
import type { ShadowCandidate } from '../policy-tools/shadow/shadow.js'

/** Rejects if a stage does not start. */
export async function openCandidate(policy: Policy, place: PolicyPlace): Promise<ShadowCandidate> {
  const judge = await Judge.start(policy, { place, runsUnstated: false, through: 'verdict' })
  return {
    sha256: policy.sha256,
    stages: judge.deciding,
    later: judge.later,
    async judge(call, caller, request) {
      judge.clock.set({ time: call.receivedAt })
      const { decision, reasons, possible, outcome } = await judge.judge(copyOf(call, caller, request))
      if (possible.length > 0) return undefined
      if (outcome.kind === 'failed') throw new Error(outcome.message, { cause: outcome.cause })
      const [reason] = reasons
      return { decision, ...defined({ reason }) }
    },
    close: () => judge[Symbol.asyncDispose](),
  }
}

/** The caller is the one that the policy in force has identified. */
function copyOf(call: Call, caller: Identity, request: CallRequest): CallControl {
  const { protocol, headers, trace, agent, target, receivedAt } = call
  const copy = new CallControl({
    protocol,
    headers,
    trace,
    agent,
    target,
    receivedAt,
    read: () => request,
  })
  copy.set(judgedOnly, true)
  copy.set(trustedCaller, { identity: caller, scopes: new Set(caller.scopes) })
  const forms = call.get(clientForms)
  if (forms !== undefined) copy.set(clientForms, () => ({ isOffered: forms().isOffered }))
  return copy
}
