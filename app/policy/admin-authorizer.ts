// Who may do what on the admin listener, as the policy in force says it.
import type { Identity, PolicyFacts, Reviewer, Reviewers } from '@svc/core'
import type { AllowedHosts } from '../http/allowed-hosts.js'
import type { AdminToken } from './admin-token.js'

export class AdminAuthorizer {
  /** Absent: the listener is open to whoever reaches it, as far as a token alone would let them in. */
  readonly token: AdminToken | undefined
  /** The names that the listener answers to. */
  readonly hosts: AllowedHosts
  readonly #reviewers: Reviewers | undefined
  readonly #hasOidc: boolean

  constructor({ reviewers, hasOidc = false }: PolicyFacts, hosts: AllowedHosts, token?: AdminToken) {
    this.token = token
    this.hosts = hosts
    this.#reviewers = reviewers
    this.#hasOidc = hasOidc
  }

  /** Where people can show who they are, votes are theirs: the token is nobody's name (decisions.md §6). */
  get tokenVotes(): boolean {
    return !this.#hasOidc
  }

  /** What there is for a reviewer to see; undefined for one who is none. */
  scopeOf(reviewer: Reviewer): VisibleScope | undefined {
    if (reviewer.kind === 'admin') return { isAll: true, tenant: undefined, sets: new Set() }
    const { identity } = reviewer
    const { roles = [], approvalSets = {} } = this.#reviewers ?? {}
    if (!hasOne(identity, roles)) return undefined
    const sets = Object.entries(approvalSets).flatMap(([id, { users = [], roles: ofSet = [] }]) =>
      isNamed(identity, users) || hasOne(identity, ofSet) ? [id] : [],
    )
    return { isAll: false, tenant: identity.tenant, sets: new Set(sets) }
  }
}

/** Which escalations somebody may read: those of a tenant, and those that name one of the sets. */
export interface VisibleScope {
  readonly isAll: boolean
  readonly tenant: string | undefined
  readonly sets: ReadonlySet<string>
}

function isNamed({ user, userId }: Identity, users: readonly string[]): boolean {
  return (user !== undefined && users.includes(user)) || (userId !== undefined && users.includes(userId))
}

function hasOne({ roles }: Identity, wanted: readonly string[]): boolean {
  return roles.some((role) => wanted.includes(role))
}
