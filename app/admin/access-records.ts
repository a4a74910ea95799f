// Records who read or was refused what on the admin listener. Votes that count are recorded by the escalations themselves.
import {
  type Clock,
  type ErrorCode,
  type GatewayEvent,
  type RecordEvent,
  type Reviewer,
  resolveOptional,
  services,
} from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import type { RecordedRoute } from './handler.js'

export interface AdminRequest {
  readonly route: RecordedRoute
  /** With its query. */
  readonly path: string
  readonly traceId: string
  /** Undefined if the request has no valid token. */
  readonly client: Reviewer | undefined
  /** Undefined if the request is allowed. */
  readonly refused: ErrorCode | undefined
}

/** The tools of the records. */
const names: Record<RecordedRoute['kind'], string> = {
  metrics: 'read_metrics',
  list: 'list_escalations',
  show: 'show_escalation',
  input: 'read_input',
  vote: 'vote',
}

/** A client that polls has one record in this time for each of its requests. */
const repeatMs = 60_000
const maxRemembered = 1_000
const maxPath = 200

export class AccessRecords {
  #clock: Pick<Clock, 'monotonic'>
  /** Who, what and the outcome, and when that was recorded; the oldest first. */
  #recorded = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /**
   * @throws {Refusal} `AUDIT_UNAVAILABLE` if the record cannot be written and the policy does not continue without
   */
  async add(request: AdminRequest, policy: DependencyContainer): Promise<void> {
    const record: RecordEvent | undefined = resolveOptional(policy, services.record)
    const key = keyOf(request)
    if (record === undefined || !this.#isDue(key)) return
    const { route, path, traceId, client, refused } = request
    const by = client?.kind === 'admin' ? ' with the admin token' : ''
    const event: GatewayEvent = {
      name: `admin/${names[route.kind]}`,
      traceId,
      decision: refused === undefined ? 'allow' : 'deny',
      findings: [
        {
          reason: 'admin_access',
          stage: 'admin',
          effect: refused === undefined ? 'reported' : 'deny',
          detail: `${path.slice(0, maxPath)}${by}`,
        },
      ],
      ...(client?.kind === 'user' ? { principal: client.identity, tenant: client.identity.tenant } : {}),
      ...('id' in route ? { escalationId: route.id } : {}),
      ...(refused === undefined ? {} : { error: refused }),
    }
    try {
      await record(event)
    } catch (error) {
      this.#recorded.delete(key)
      throw error
    }
  }

  #isDue(key: string): boolean {
    const now = this.#clock.monotonic()
    for (const [oldest, at] of this.#recorded) {
      if (now - at < repeatMs && this.#recorded.size < maxRemembered) break
      this.#recorded.delete(oldest)
    }
    if (this.#recorded.has(key)) return false
    this.#recorded.set(key, now)
    return true
  }
}

function keyOf({ route, path, client, refused }: AdminRequest): string {
  const who = client?.kind === 'user' ? [client.identity.tenant, client.identity.userId] : client?.kind
  // Whoever has no token chooses the path freely: these requests share a record.
  return JSON.stringify([who, route.kind, refused, client === undefined ? '' : path])
}
