import { brand, type Call, type Denial, type ErrorCode, hasBrand, type Outcome, type Sent } from '@svc/core'

/** The error of a tool call that a stage refused or that could not be finished. */
export class GovernanceError extends Error {
  readonly [brand] = 'GovernanceError'
  override readonly name = 'GovernanceError'

  /** The message has the code and the reason, because a model gets nothing else from the error. */
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly details: {
      /** Whether the function was called. */
      readonly sent: Sent
      readonly denial?: Denial | undefined
      /** Set if the call waits for an approval. */
      readonly escalationId?: string | undefined
      readonly traceId: string
      readonly cause?: unknown
    },
  ) {
    const reason = details.denial?.reason
    super(`${code}${reason === undefined ? '' : ` (${reason})`}: ${message}`, { cause: details.cause })
  }
}

/** True also for an error of another copy of this package. */
export function isGovernanceError(value: unknown): value is GovernanceError {
  return hasBrand(value, 'GovernanceError')
}

/** The error of an outcome without a response. */
export function errorOf(
  outcome: Exclude<Outcome, { kind: 'completed' }>,
  { sent, trace }: Call,
): GovernanceError {
  const { code, message } = outcome
  return new GovernanceError(code, message, {
    sent,
    traceId: trace.traceId,
    ...(outcome.kind === 'denied'
      ? { denial: outcome.denial, escalationId: outcome.escalation?.id }
      : { cause: outcome.cause }),
  })
}
