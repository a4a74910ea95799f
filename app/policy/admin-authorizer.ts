// Decides by the policy in force what a request to the admin listener may do. The admin token is read through its key
// reference, so that it can be changed without a restart, and compared in constant time.
import { createHash, timingSafeEqual } from 'node:crypto'
import {
  type Clock,
  hostOf,
  type Identity,
  type PolicyHost,
  policyTokens,
  type Reviewer,
  resolveOptional,
} from '@svc/core'
import { cachedFor, KeyError, type KeyReader } from '@svc/core/secret'
import type { DependencyContainer } from 'tsyringe'
import type { AllowedHosts } from '../http/allowed-hosts.js'

export class AdminAuthorizer {
  /** If undefined, what needs only the admin token is open to every client that reaches the listener. */
  readonly token: AdminToken | undefined
  /** The Host names that the listener responds to. */
  readonly hosts: AllowedHosts
  readonly #reviewers: PolicyHost['reviewers']
  readonly #knowsUsers: boolean | undefined

  constructor(policy: DependencyContainer, hosts: AllowedHosts, token?: AdminToken) {
    this.token = token
    this.hosts = hosts
    this.#reviewers = hostOf(policy).reviewers
    this.#knowsUsers = resolveOptional(policy, policyTokens.knowsUsers)
  }

  /** With OIDC, only users vote: the token does not identify a person. */
  get tokenVotes(): boolean {
    return this.#knowsUsers !== true
  }

  /** The escalations that a reviewer may see; undefined for a user who is neither a reviewer nor in a set. */
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

/** Time for which a token is cached, so that requests with wrong tokens cause no disk reads. */
const cacheMs = 1000
const minLength = 16
/** RFC 6750 §2.1: the characters of a bearer token. */
const b64token = /^[A-Za-z0-9\-._~+/]+=*$/

export class AdminToken {
  #ref: string
  #reader: KeyReader
  #digest: () => Promise<Buffer>

  constructor(ref: string, reader: KeyReader, clock: Clock) {
    this.#ref = ref
    this.#reader = reader
    this.#digest = cachedFor(cacheMs, clock, () => this.#load())
  }

  /** Rejects with `KeyError` if the reference has no valid token. */
  async check(): Promise<void> {
    await this.#digest()
  }

  /** Rejects with `KeyError` if the token cannot be read. */
  async equals(presented: string): Promise<boolean> {
    return timingSafeEqual(digestOf(presented), await this.#digest())
  }

  async #load(): Promise<Buffer> {
    const token = await this.#reader.read(this.#ref)
    if (token.length < minLength) {
      throw new KeyError('key_malformed', `the token has fewer than ${minLength} characters`)
    }
    if (!b64token.test(token)) {
      throw new KeyError('key_malformed', 'the token holds more than letters, digits, - . _ ~ + / and =')
    }
    return digestOf(token)
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
