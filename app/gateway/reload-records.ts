// The records of policies that came in force or were refused.
import { type GatewayEvent, type Identity, resolve, resolveOptional, services, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import type { ChangeSummary } from '../policy-tools/diff/summary.js'

/** Who or what asks for a reload. */
export interface ReloadCause {
  readonly by: string
  /** The user of the admin listener. */
  readonly user?: Identity | undefined
}

/** A policy that took the place of another, in the form of a notice. */
export interface ReloadedPolicy extends Partial<ChangeSummary> {
  readonly policy_sha256: string | null
  readonly previous_sha256: string | null
  readonly by: string
}

/** Length limit for the mistakes of a refused policy. */
const MAX_REFUSAL = 2_000

export function describeRefusal(error: unknown): string {
  return messageOf(error).slice(0, MAX_REFUSAL)
}

/** `container` has the bindings of the new policy. @throws {Refusal} `AUDIT_UNAVAILABLE` */
export async function recordReload(
  container: DependencyContainer,
  change: ReloadedPolicy,
  cause: ReloadCause,
): Promise<void> {
  await record(container, cause, {
    decision: 'allow',
    findings: [{ reason: 'policy_reloaded', stage: 'gateway', effect: 'reported' }],
    facts: { ...change },
  })
}

/** `container` has the bindings of the policy that stays in force. @throws {Refusal} `AUDIT_UNAVAILABLE` */
export async function recordRefusal(
  container: DependencyContainer,
  error: unknown,
  cause: ReloadCause,
): Promise<void> {
  const detail = describeRefusal(error)
  await record(container, cause, {
    decision: 'deny',
    findings: [{ reason: 'policy_refused', stage: 'gateway', effect: 'deny', detail }],
    error: 'BAD_REQUEST',
    facts: { by: cause.by },
  })
}

type Decided = Pick<GatewayEvent, 'decision' | 'findings' | 'facts' | 'error'>

async function record(container: DependencyContainer, { user }: ReloadCause, event: Decided): Promise<void> {
  await resolveOptional(
    container,
    services.record,
  )?.({
    name: 'policy/reload',
    traceId: resolve(container, tokens.Ids).traceId(),
    ...(user === undefined ? {} : { principal: user, tenant: user.tenant }),
    ...event,
  })
}
