// Sends calls through an entitlements stage.
import { type Call, type Finding, type Identity, type Limit, limits, type Stage } from '@svc/core'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import type { CallOverrides } from '../../support/call.js'
import { StageRig, send } from '../../support/stage-rig.js'

export interface Caller extends Partial<Identity> {
  /** The header `x-node-id`. */
  readonly claimedNode?: string
}

export interface Result {
  readonly call: Call
  readonly findings: readonly Finding[]
  readonly limits: readonly Limit[]
}

export function createEntitlements(section: unknown): Stage {
  return new StageRig().create(entitlementsPlugin, section)
}

export function callBy({ claimedNode, ...caller }: Caller = {}, what: CallOverrides = {}): CallOverrides {
  return { ...what, caller, ...(claimedNode === undefined ? {} : { agent: { nodeId: claimedNode } }) }
}

export async function run(section: unknown, caller: Caller = {}, what: CallOverrides = {}): Promise<Result> {
  const { call } = await send(createEntitlements(section), callBy(caller, what))
  return { call, findings: call.findings, limits: call.need(limits) }
}

/** The reason token of the finding, or `allowed`. */
export async function reasonFor(
  section: unknown,
  caller: Caller = {},
  what: CallOverrides = {},
): Promise<string> {
  const { findings } = await run(section, caller, what)
  return findings[0]?.reason ?? 'allowed'
}

/** A section with the tenant `acme` and the plan `free`. */
export function acme(tenant: object, plan: object = {}): object {
  return {
    default_plan: 'free',
    plans: { free: plan },
    tenants: { acme: { plan: 'free', allowlist: [], ...tenant } },
  }
}
