// Notifies `policyWebhookUrl` of calls that were denied for their mandates, through what the gateway binds.
import { type Call, type Settlement, token } from '@svc/core'

export interface MandateDenial {
  /** Trace and span of the call. */
  readonly id: string
  readonly tenant: string
  readonly tool: string
  readonly reasons: readonly string[]
  /** ISO 8601. */
  readonly time: string
}

export interface DenialNotifier {
  /** Returns at once; the notification is sent in the background. */
  notify(url: string, denial: MandateDenial): void
}

export const denialNotifier = token<DenialNotifier>('ap2/DenialNotifier')

export function notifyOnDenial(call: Call, tenant: string, send: (denial: MandateDenial) => void): void {
  call.onSettle(({ outcome }: Settlement) => {
    const reasons = call.findings.flatMap(({ stage, reason }) => (stage === 'ap2' ? [reason] : []))
    if (outcome.kind !== 'denied' || reasons.length === 0) return
    const { server, tool, toolVersion } = call.target
    send({
      id: `${call.trace.traceId}-${call.trace.spanId}`,
      tenant,
      tool: `${server}/${tool}@${toolVersion}`,
      reasons: [...new Set(reasons)],
      time: new Date(call.receivedAt).toISOString(),
    })
  })
}
