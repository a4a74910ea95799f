// The callers that suffice to compare two sections: those without principals of their own, with one, and with two of
// which one has changed. Who gains with more principals gains with two: one that allows the call, and one that denied it.
import { isDeepStrictEqual } from 'node:util'
import type { Identity, PolicyChange } from '@svc/core'
import { NamePatterns, nameOutside, overlap } from '@svc/core/match'
import { type EntitlementsConfig, PRINCIPAL_SECTIONS, type TenantConfig } from './config.js'

export type Section = EntitlementsConfig | 'open' | 'none'

export interface ComparedCaller {
  /** Empty for a caller without principals of its own. */
  readonly names: readonly string[]
  readonly identity: Omit<Identity, 'tenant' | 'authenticated'>
  /** The header `x-node-id`. */
  readonly node: string | null
  /** Its user stands for any. */
  readonly isOfAnyUser?: true
}

interface Principal extends ComparedCaller {
  readonly isChanged: boolean
}

export const anyCaller: ComparedCaller = { names: [], identity: { roles: [] }, node: null }

/** The entries that apply to a tenant, the most specific first. */
export function tenantEntries(section: Section, tenant: string): readonly TenantConfig[] {
  if (typeof section === 'string') return []
  const { tenants } = section
  const matches = new NamePatterns(Object.keys(tenants)).match(tenant)
  return matches.flatMap(({ key }) => tenants[key] ?? [])
}

/** The entry of the tenant: the most specific one that matches its name as it is written. */
export function tenantIn(section: Section, tenant: string): TenantConfig | undefined {
  if (typeof section === 'string') return undefined
  const [first] = new NamePatterns(Object.keys(section.tenants)).match(tenant)
  return first?.isWritten === true ? section.tenants[first.key] : undefined
}

/** The callers with one principal, then those with two. The text of a pattern is a name that it matches. */
export function comparedCallers(
  before: readonly TenantConfig[],
  after: readonly TenantConfig[],
): { readonly one: readonly Principal[]; readonly two: readonly ComparedCaller[] } {
  const one = PRINCIPAL_SECTIONS.flatMap((section) => {
    const keys = keysOf(section, before, after)
    return keys.flatMap((id) => {
      const [old, now] = [before, after].map((all) => all.map((tenant) => tenant[section]?.[id]))
      const overrides = [old, now].flat().some((principal) => principal?.override === true)
      const isChanged = !isDeepStrictEqual(old, now)
      const anyUser = nameOutside(keysOf('users', before, after)) ?? 'any'
      return formsOf(section, id, overrides, anyUser).map((form) => ({ ...form, isChanged }))
    })
  })
  const two = one.flatMap((first, index) =>
    one
      .slice(index + 1)
      .flatMap((second) => (first.isChanged || second.isChanged ? together(first, second) : [])),
  )
  return { one, two }
}

function keysOf(section: PrincipalSection, ...sides: readonly (readonly TenantConfig[])[]): string[] {
  return [...new Set(sides.flat().flatMap((tenant) => Object.keys(tenant[section] ?? {})))]
}

/** What the callers above do not stand for: names that two patterns match of which neither has all names of the other. */
export function uncomparedNames(
  before: readonly TenantConfig[],
  after: readonly TenantConfig[],
): PolicyChange[] {
  if (isDeepStrictEqual(before, after)) return []
  return PRINCIPAL_SECTIONS.flatMap((section) => {
    const pair = crossing(keysOf(section, before, after))
    return pair === undefined ? [] : [notCompared(section.replace('_', ' '), pair)]
  })
}

export function notCompared(subject: string, [a, b]: readonly [string, string]): PolicyChange {
  return {
    effect: 'unknown',
    subject,
    detail: `not compared: "${a}" and "${b}" match some of the same names`,
  }
}

export function crossing(keys: readonly string[]): readonly [string, string] | undefined {
  const patterns = keys.filter((key) => key.includes('*'))
  for (const [index, a] of patterns.entries()) {
    const b = patterns.slice(index + 1).find((other) => overlap(a, other) === 'across')
    if (b !== undefined) return [a, b]
  }
  return undefined
}

/** A name that the key matches only folded. */
export function spelledOtherwise(key: string): string | undefined {
  const patterns = new NamePatterns([key])
  const others = [key.toUpperCase(), key.toLowerCase(), `${key}.`]
  return others.find((name) => patterns.match(name)[0]?.isWritten === false)
}

type PrincipalSection = (typeof PRINCIPAL_SECTIONS)[number]

/**
 * A name that matches only folded, and a client with a user, get the restrictions alone: such callers differ from the
 * others if the entry overrides the lists of the tenant.
 */
function formsOf(
  section: PrincipalSection,
  id: string,
  overrides: boolean,
  anyUser: string,
): ComparedCaller[] {
  const other = overrides ? spelledOtherwise(id) : undefined
  const restricted = other === undefined ? [] : named(section, other)
  const ofUser =
    section === 'agents'
      ? [
          {
            names: [`agent ${id} of any user`],
            identity: { roles: [], user: anyUser, client: id },
            node: null,
            isOfAnyUser: true as const,
          },
        ]
      : []
  return [...named(section, id), ...restricted, ...ofUser]
}

function named(section: PrincipalSection, id: string): ComparedCaller[] {
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
  const [x, y] = [identityBeside(a, b), identityBeside(b, a)]
  const hasBoth = (['user', 'userId', 'clientId', 'client', 'nodeId'] as const).some(
    (key) => x[key] !== undefined && y[key] !== undefined,
  )
  const isAgent = x.clientId !== undefined || y.clientId !== undefined
  const isUser = x.user !== undefined || y.user !== undefined
  if (hasBoth || (isAgent && isUser) || (a.node !== null && b.node !== null)) return []
  const identity = { ...x, ...y, roles: [...new Set([...x.roles, ...y.roles])] }
  return [{ names: [...a.names, ...b.names], identity, node: a.node ?? b.node }]
}

/** Without the user that stands for any, if the other one names a user. */
function identityBeside(
  { identity, isOfAnyUser }: ComparedCaller,
  other: ComparedCaller,
): ComparedCaller['identity'] {
  if (isOfAnyUser !== true || other.identity.user === undefined) return identity
  const { user: _user, ...rest } = identity
  return rest
}
