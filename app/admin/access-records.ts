// Records reads and refusals on the admin listener, with the client. The escalations record the votes that count.

import {
  type Clock,
  type ErrorCode,
  type GatewayEvent,
  type RecordEvent,
  type Reviewer,
  resolveOptional,
  services,
} from '@svc/core'
import { defined } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import type { Operation } from './operation.js'

export interface AdminRequest {
  readonly operation: Operation
  readonly id: string | undefined
  /** The path with its query. */
  readonly path: string
  readonly traceId: string
  /** Undefined if the request has no valid token. */
  readonly client: Reviewer | undefined
  /** Undefined if the request is allowed. */
  readonly refused: ErrorCode | undefined
}

/** A client that polls has one record in this time for each of its requests. */
const repeatMs = 60_000
const maxRemembered = 1_000

export class AccessRecords {
  #clock: Pick<Clock, 'monotonic'>
  /** The records by client, operation and outcome; the oldest first. */
  #recorded = new Map<string, { readonly at: number; readonly written: Promise<void> }>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /**
   * Resolves once a record is written, be it that of an earlier request.
   *
   * @throws {Refusal} `AUDIT_UNAVAILABLE` if the record cannot be written and the policy does not continue without
   */
  async add(request: AdminRequest, policy: DependencyContainer): Promise<void> {
    const record: RecordEvent | undefined = resolveOptional(policy, services.record)
    if (record === undefined) return
    await this.#once(keyOf(request), () => record(eventOf(request)))
  }

  #once(key: string, write: () => Promise<void>): Promise<void> {
    const now = this.#clock.monotonic()
    for (const [oldest, { at }] of this.#recorded) {
      if (now - at < repeatMs && this.#recorded.size < maxRemembered) break
      this.#recorded.delete(oldest)
    }
    const earlier = this.#recorded.get(key)
    if (earlier !== undefined) return earlier.written
    const entry = { at: now, written: write() }
    this.#recorded.set(key, entry)
    entry.written.catch(() => {
      if (this.#recorded.get(key) === entry) this.#recorded.delete(key)
    })
    return entry.written
  }
}

function eventOf({ operation, id, path, traceId, client, refused }: AdminRequest): GatewayEvent {
  const by = client?.kind === 'admin' ? ' with the admin token' : ''
  return {
    name: `admin/${operation.name}`,
    traceId,
    decision: refused === undefined ? 'allow' : 'deny',
    findings: [
      {
        reason: 'admin_access',
        stage: 'admin',
        effect: refused === undefined ? 'reported' : 'deny',
        detail: `${path}${by}`,
      },
    ],
    ...(client?.kind === 'user' ? { principal: client.identity, tenant: client.identity.tenant } : {}),
    ...(operation.idOf === 'escalation' && id !== undefined ? { escalationId: id } : {}),
    ...defined({ error: refused }),
  }
}

function keyOf({ operation, path, client, refused }: AdminRequest): string {
  // The key has the whole identity, because a service agent has no user.
  const who = client?.kind === 'user' ? client.identity : client?.kind
  // A client without a token may send any path, so that all its refusals of one kind share a record.
  return JSON.stringify([who, operation.name, refused, client === undefined ? '' : path])
}
