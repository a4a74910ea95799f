// Decides what a request to the admin listener may do, by the policy in force.
import type { Identity, PolicyFacts, Reviewer, Reviewers } from '@svc/core'
import type { AllowedHosts } from '../http/allowed-hosts.js'
import type { AdminToken } from './admin-token.js'

export class AdminAuthorizer {
  /** Undefined: what needs only the admin token is open to every client that reaches the listener. */
  readonly token: AdminToken | undefined
  /** The Host names that the listener answers to. */
  readonly hosts: AllowedHosts
  readonly #reviewers: Reviewers | undefined
  readonly #hasOidc: boolean

  constructor({ reviewers, hasOidc = false }: PolicyFacts, hosts: AllowedHosts, token?: AdminToken) {
    this.token = token
    this.hosts = hosts
    this.#reviewers = reviewers
    this.#hasOidc = hasOidc
  }

  /** With OIDC, only users vote: the token does not identify a person. */
  get tokenVotes(): boolean {
    return !this.#hasOidc
  }

  /** The escalations that a reviewer may see; undefined for a user who is no reviewer and in no set. */
  scopeOf(reviewer: Reviewer): VisibleScope | undefined {
    if (reviewer.kind === 'admin') return { isAll: true, tenant: undefined, sets: new Set() }
    const { identity } = reviewer
    const { roles = [], approvalSets = {} } = this.#reviewers ?? {}
    const sets = Object.entries(approvalSets).flatMap(([id, { users = [], roles: ofSet = [] }]) =>
      isNamed(identity, users) || hasOne(identity, ofSet) ? [id] : [],
    )
    const isReviewer = hasOne(identity, roles)
    if (!isReviewer && sets.length === 0) return undefined
    return { isAll: false, tenant: isReviewer ? identity.tenant : undefined, sets: new Set(sets) }
  }
}

/** The escalations that a reviewer may read: those of a tenant, and those that name one of the approval sets. */
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
