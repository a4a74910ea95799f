// Runs calls through an entitlements stage.
import { type Call, type Finding, type Identity, identity, type Limit, limits, type Outcome } from '@svc/core'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { createStage } from 'svc-sdk/testing'
import { type CallOverrides, makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'

export const served: Outcome = {
  kind: 'completed',
  sent: 'yes',
  status: 200,
  headers: {},
  body: new Uint8Array(),
}

export interface Caller extends Partial<Identity> {
  /** The header `x-node-id`. */
  readonly claimedNode?: string
}

export interface Result {
  readonly call: Call
  readonly findings: readonly Finding[]
  readonly limits: readonly Limit[]
}

export function createEntitlements(section: unknown) {
  return createStage(entitlementsPlugin, section, makeContext())
}

export function callOf({ claimedNode, ...caller }: Caller = {}, what: CallOverrides = {}): Call {
  const call = makeCall({ ...what, ...(claimedNode === undefined ? {} : { agent: { nodeId: claimedNode } }) })
  call.set(identity, { tenant: 'acme', authenticated: true, roles: [], ...caller })
  return call
}

export async function run(section: unknown, caller: Caller = {}, what: CallOverrides = {}): Promise<Result> {
  const call = callOf(caller, what)
  await createEntitlements(section).handle(call, async () => served)
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
