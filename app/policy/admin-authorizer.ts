// Decides by the policy in force what a request to the admin listener may do. The admin token is read through its key
// reference, so that it can be changed without a restart, and compared in constant time.
import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, hostOf, type PolicyHost, policyTokens, type Reviewer, resolveOptional } from '@svc/core'
import { cachedFor, KeyError, type KeyReader } from '@svc/core/secret'
import { isMemberOf } from '@svc/plugin-enforcement'
import type { DependencyContainer } from 'tsyringe'
import { AllowedHosts } from '../http/allowed-hosts.js'
import type { AdminConfig } from './admin-config.js'

type AdminRole = keyof AdminConfig['roles']

export class AdminAuthorizer {
  /** If undefined, what needs only the admin token is open to every client that reaches the listener. */
  readonly token: AdminToken | undefined
  /** The Host names that the listener responds to. */
  readonly hosts: AllowedHosts
  /** The client as which people sign in to the console at the issuer; undefined if they do not. */
  readonly clientId: string | undefined
  /** The URL at which browsers reach the listener, if the policy has it. */
  readonly publicUrl: string | undefined
  readonly #reviewers: PolicyHost['reviewers']
  readonly #knowsUsers: boolean | undefined
  readonly #roles: AdminConfig['roles']

  constructor(policy: DependencyContainer, config: AdminConfig, token?: AdminToken) {
    this.token = token
    this.clientId = config.console.clientId
    this.publicUrl = config.publicUrl
    this.hosts = new AllowedHosts(config)
    this.#roles = config.roles
    this.#reviewers = hostOf(policy).reviewers
    this.#knowsUsers = resolveOptional(policy, policyTokens.knowsUsers)
  }

  /** With OIDC, only users vote: the token does not identify a person. */
  get tokenVotes(): boolean {
    return this.#knowsUsers !== true
  }

  /** The rights of a client of the listener. */
  accessOf(client: Reviewer): AdminAccess {
    if (client.kind === 'admin') return everything
    const { identity } = client
    const { approvalSets = {} } = this.#reviewers ?? {}
    const sets = Object.entries(approvalSets).flatMap(([id, set]) => (isMemberOf(set, identity) ? [id] : []))
    const has = (role: AdminRole) => this.#roles[role].some((one) => identity.roles.includes(one))
    const own = { tenant: has('reviewer') ? identity.tenant : undefined, sets: new Set(sets) }
    if (has('operator')) return { ...everything, ...own }
    if (has('auditor')) return { ...everything, ...own, operates: false }
    return {
      ...own,
      operates: false,
      readsMetrics: has('viewer'),
      readsOutlines: has('viewer'),
      readsAll: false,
    }
  }
}

const everything: AdminAccess = {
  operates: true,
  readsMetrics: true,
  readsOutlines: true,
  readsAll: true,
  tenant: undefined,
  sets: new Set(),
}

/** The rights of a client. The service of escalations decides who may vote on one. */
export interface AdminAccess {
  /** Whether it may change what the gateway does. */
  readonly operates: boolean
  readonly readsMetrics: boolean
  /** Every escalation, without the input of its call. */
  readonly readsOutlines: boolean
  /** Every escalation. */
  readonly readsAll: boolean
  /** The tenant on whose escalations it votes, which it may read. */
  readonly tenant: string | undefined
  /** The approval sets on whose escalations it votes, which it may read. */
  readonly sets: ReadonlySet<string>
}

/** Whether the client may read at all: what its roles and sets let it see of the gateway. */
export function isReader({ readsOutlines, readsAll, tenant, sets }: AdminAccess): boolean {
  return readsOutlines || readsAll || tenant !== undefined || sets.size > 0
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

  /** Changes with the token, which it does not reveal. Rejects with `KeyError` if the token cannot be read. */
  async fingerprint(): Promise<string> {
    return createHash('sha256')
      .update(await this.#digest())
      .digest('hex')
      .slice(0, 32)
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
