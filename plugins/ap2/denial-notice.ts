// The notice of a call that was denied for its mandates, to `policyWebhookUrl` and to who else the policy subscribes.
import type { Call, Notices } from '@svc/core'

export interface NoticeParts {
  readonly notices: Notices
  readonly url: string | undefined
}

export function noticeOnDenial(call: Call, tenant: string, { notices, url }: NoticeParts): void {
  call.onSettle(({ outcome }) => {
    if (outcome.kind !== 'denied') return
    const found = call.findings.flatMap(({ stage, reason }) => (stage === 'ap2' ? [reason] : []))
    const reasons = [...new Set(found)]
    if (reasons.length === 0) return
    const { server, tool, toolVersion } = call.target
    const data = { tenant, tool: `${server}/${tool}@${toolVersion}`, reasons, trace_id: call.trace.traceId }
    notices.send({ type: 'ap2.denied', data }, url)
  })
}
