// Loads the pages of the policy.
import type { BlocksJson } from '../../../admin/block-operations.js'
import type { ShadowJson } from '../../../gateway/operations.js'
import type { ActivityJson } from '../../activity-operation.js'
import type { Location } from '../../api.js'
import type { AccessJson, PolicyJson } from '../../policy-operations.js'
import { type Api, apiRefusalOf } from '../kit/api.js'

export type PolicyCaller = PolicyJson['callers'][number]

export const policyPages = ['in-words', 'access', 'try', 'shadow', 'text'] as const
export type PolicyPage = (typeof policyPages)[number]

export interface PolicyData {
  readonly policy: PolicyJson
  readonly activity: ActivityJson | undefined
  readonly blocks: BlocksJson['blocks']
  readonly access: AccessJson | undefined
  /** Undefined if the policy names no shadow policy. */
  readonly shadow: ShadowJson | undefined
}

/** Undefined if the path names no page. */
export function policyPageOf({ path }: Location): PolicyPage | undefined {
  const [, , page = 'in-words'] = path.split('/')
  return policyPages.find((one) => one === page)
}

export async function loadPolicyView(api: Pick<Api, 'get'>, location: Location): Promise<PolicyData> {
  const page = policyPageOf(location)
  const [policy, activity, { blocks }, access, shadow] = await Promise.all([
    api.get<PolicyJson>('/api/policy'),
    page === 'in-words' ? unlessAbsent(api.get<ActivityJson>('/api/activity')) : undefined,
    page === 'access' || page === 'in-words' ? api.get<BlocksJson>('/api/blocks') : { blocks: [] },
    page === 'access' ? accessOf(api, location) : undefined,
    page === 'shadow' ? unlessAbsent(api.get<ShadowJson>('/api/policy/shadow')) : undefined,
  ])
  return { policy, activity, blocks, access, shadow }
}

/** By the query: a caller, or a tool; by default anyone of the gateway's own tenant. */
async function accessOf(api: Pick<Api, 'get'>, { query }: Location): Promise<AccessJson> {
  const asked = new URLSearchParams(query)
  if (!asked.has('tool') && !asked.has('tenant')) {
    const { callers } = await api.get<PolicyJson>('/api/policy')
    const [first] = callers
    asked.set('tenant', first?.tenant ?? '')
  }
  return api.get<AccessJson>(`/api/policy/access?${asked}`)
}

async function unlessAbsent<Json>(asked: Promise<Json>): Promise<Json | undefined> {
  try {
    return await asked
  } catch (error) {
    if (apiRefusalOf(error).error === 'TARGET_NOT_FOUND') return undefined
    throw error
  }
}

/** `role support of acme`; without the tenant if there is only one. */
export function nameOf({ tenant, kind, name }: PolicyCaller, isOneTenant = false): string {
  const who = kind === 'anyone' ? 'anyone' : `${kind.replace('_', ' ')} ${name}`
  return isOneTenant ? who : `${who} of ${tenant}`
}
