// The callers that suffice to compare two sections: those without principals of their own, with one, and with two of
// which one has changed. Who gains with more principals gains with two: one that allows the call, and one that denied it.
import { isDeepStrictEqual } from 'node:util'
import type { Identity } from '@svc/core'
import { type EntitlementsConfig, PRINCIPAL_SECTIONS, type TenantConfig } from './config.js'

export type Section = EntitlementsConfig | 'open' | 'none'

export interface ComparedCaller {
  /** Empty for a caller without principals of its own. */
  readonly names: readonly string[]
  readonly identity: Omit<Identity, 'tenant' | 'authenticated'>
  /** The header `x-node-id`. */
  readonly node: string | null
}

interface Principal extends ComparedCaller {
  readonly isChanged: boolean
}

export const anyCaller: ComparedCaller = { names: [], identity: { roles: [] }, node: null }

export function tenantIn(section: Section, tenant: string): TenantConfig | undefined {
  if (typeof section === 'string') return undefined
  return Object.hasOwn(section.tenants, tenant) ? section.tenants[tenant] : undefined
}

/** The callers with one principal, then those with two. */
export function comparedCallers(
  before: TenantConfig | undefined,
  after: TenantConfig | undefined,
): { readonly one: readonly Principal[]; readonly two: readonly ComparedCaller[] } {
  const one = PRINCIPAL_SECTIONS.flatMap((section) => {
    const [old = {}, now = {}] = [before?.[section], after?.[section]]
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((id) => {
      const isChanged = !isDeepStrictEqual(old[id], now[id])
      return formsOf(section, id).map((form) => ({ ...form, isChanged }))
    })
  })
  const two = one.flatMap((first, index) =>
    one
      .slice(index + 1)
      .flatMap((second) => (first.isChanged || second.isChanged ? together(first, second) : [])),
  )
  return { one, two }
}

function formsOf(section: (typeof PRINCIPAL_SECTIONS)[number], id: string): ComparedCaller[] {
  const roles: readonly string[] = []
  switch (section) {
    case 'users':
      return [{ names: [`user ${id}`], identity: { roles, user: id }, node: null }]
    case 'user_ids':
      return [{ names: [`user id ${id}`], identity: { roles, userId: id }, node: null }]
    case 'roles':
      return [{ names: [`role ${id}`], identity: { roles: [id] }, node: null }]
    case 'agents':
      return [{ names: [`agent ${id}`], identity: { roles, clientId: id }, node: null }]
    case 'agent_nodes':
      return [
        { names: [`node ${id}`], identity: { roles, nodeId: id }, node: id },
        { names: [`node ${id} in the token only`], identity: { roles, nodeId: id }, node: null },
        { names: [`node ${id} in the header only`], identity: { roles }, node: id },
      ]
  }
}

/** Empty if no caller can have both. */
function together(a: ComparedCaller, b: ComparedCaller): ComparedCaller[] {
  const [x, y] = [a.identity, b.identity]
  const hasBoth = (['user', 'userId', 'clientId', 'nodeId'] as const).some(
    (key) => x[key] !== undefined && y[key] !== undefined,
  )
  const isAgent = x.clientId !== undefined || y.clientId !== undefined
  const isUser = x.user !== undefined || y.user !== undefined
  if (hasBoth || (isAgent && isUser) || (a.node !== null && b.node !== null)) return []
  const identity = { ...x, ...y, roles: [...new Set([...x.roles, ...y.roles])] }
  return [{ names: [...a.names, ...b.names], identity, node: a.node ?? b.node }]
}
