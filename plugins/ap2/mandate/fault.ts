// A check that failed, with the reason token of its finding.
import type { reasons } from '@svc/core'

export type MandateReason = Extract<(typeof reasons)[number], `ap2_${string}`>

export class MandateFault extends Error {
  override readonly name = 'MandateFault'
  constructor(
    readonly reason: MandateReason,
    /** Safe to show to the caller. */
    detail: string,
    options?: ErrorOptions,
  ) {
    super(detail, options)
  }
}

export function malformed(detail: string, options?: ErrorOptions): MandateFault {
  return new MandateFault('ap2_malformed', detail, options)
}
