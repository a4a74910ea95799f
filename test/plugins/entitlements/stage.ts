// One call through an entitlements stage.
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

export interface Who extends Partial<Identity> {
  /** What `x-node-id` says. */
  readonly claims?: string
}

export interface Run {
  readonly call: Call
  readonly findings: readonly Finding[]
  readonly limits: readonly Limit[]
}

export function stageOf(section: object) {
  return createStage(entitlementsPlugin, section, makeContext())
}

export function callBy({ claims, ...who }: Who = {}, what: CallOverrides = {}): Call {
  const call = makeCall({ ...what, ...(claims === undefined ? {} : { agent: { nodeId: claims } }) })
  call.set(identity, { tenant: 'acme', authenticated: true, roles: [], ...who })
  return call
}

export async function run(section: object, who: Who = {}, what: CallOverrides = {}): Promise<Run> {
  const call = callBy(who, what)
  await stageOf(section).handle(call, async () => served)
  return { call, findings: call.findings, limits: call.need(limits) }
}

/** The reason found, or `allowed`. */
export async function verdictOn(section: object, who: Who = {}, what: CallOverrides = {}): Promise<string> {
  const { findings } = await run(section, who, what)
  return findings[0]?.reason ?? 'allowed'
}

/** A section with one listed tenant, `acme`. */
export function acme(tenant: object, plan: object = {}): object {
  return {
    default_plan: 'free',
    plans: { free: plan },
    tenants: { acme: { plan: 'free', allowlist: [], ...tenant } },
  }
}
