// Answers GET /healthz and GET /readyz.
import { type ErrorCode, Refusal } from '@svc/core'
import type { Pipeline } from '@svc/core/pipeline'
import type { WholeAnswer } from '../http/answer.js'

export const alive: WholeAnswer = json({ status: 'ok' })

/** `warnings` are those of the server itself. Throws `Refusal` where calls cannot be served. */
export function readiness(pipeline: Pipeline, isDraining: boolean, warnings: readonly string[]): WholeAnswer {
  const reasons = pipeline.unready()
  if (isDraining || reasons.length > 0) {
    throw new Refusal(
      unreadyCode(isDraining, reasons),
      reasons.length === 0 ? 'The gateway is shutting down.' : reasons.join('; '),
    )
  }
  const all = [...pipeline.warnings(), ...warnings]
  return json({ status: 'ready', ...(all.length === 0 ? {} : { warnings: all }) })
}

function unreadyCode(isDraining: boolean, reasons: readonly string[]): ErrorCode {
  if (isDraining) return 'DRAINING'
  return reasons.some((reason) => reason.startsWith('audit:')) ? 'AUDIT_UNAVAILABLE' : 'STORE_UNAVAILABLE'
}

function json(value: object): WholeAnswer {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) }
}
