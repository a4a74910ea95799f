// Calls that the person at the client confirms in a form. It is not a vote and not an approval: a program can respond to forms by itself.
import {
  type Call,
  type CallRequest,
  canonicalInput,
  clientForms,
  type Denied,
  denialOf,
  denied,
  type FindingList,
  identity,
  type RecordEvent,
  repeatableInput,
} from '@svc/core'
import { defined, sha256Hex, visibleInLine } from '@svc/core/json'
import { describeFindings } from './escalation/refusals.js'

/** Characters of the input that a form shows. */
const MAX_INPUT = 2000

/** Undefined if the person has confirmed exactly this, which is recorded; else the refusal, which may ask the person. */
export async function confirm(
  call: Call,
  findings: FindingList,
  record: RecordEvent | undefined,
): Promise<Denied | undefined> {
  const request = await call.request()
  const message = confirmationText(request, findings)
  const sha256 = sha256Hex(message)
  const denial = denialOf(findings)
  const subject = `${request.server}/${request.name}`
  const reply = call.get(clientForms)?.().reply
  // A form with another text, because the rule has changed meanwhile, does not count for this call.
  if (reply?.sha256 !== sha256) {
    const text = `The person at the client has to confirm ${subject}, which was not sent: ${describeFindings(findings)}.`
    return denied('CONFIRMATION_REQUIRED', text, { denial, confirmation: { message, sha256 } })
  }
  const isConfirmed = reply.action === 'accept'
  if (reply.action !== 'none') {
    const principal = call.get(identity)
    await record?.({
      name: `confirmations/${reply.action}`,
      ...(principal === undefined ? {} : { tenant: principal.tenant, principal }),
      traceId: call.trace.traceId,
      causeSpanId: call.trace.spanId,
      decision: isConfirmed ? 'allow' : 'deny',
      findings: findings.map(({ reason, stage, detail }) => ({
        reason,
        stage,
        effect: 'confirm',
        ...defined({ detail }),
      })),
      inputSha256: sha256Hex(canonicalInput(request)),
      facts: { shown_sha256: sha256 },
    })
  }
  if (isConfirmed) return undefined
  const done = reply.action === 'none' ? 'did not respond in time' : 'did not confirm'
  const text = `The person at the client ${done}: ${subject} was not sent. Repeat the call only if they want it.`
  return denied('CONFIRMATION_REQUIRED', text, { denial })
}

/** The text for the person: the questions of the rules, then the call as it would be sent. Each call has another text. */
function confirmationText(request: CallRequest, findings: FindingList): string {
  const questions = findings.map(
    ({ confirmation, detail, reason }) => confirmation?.question ?? detail ?? reason,
  )
  const reads = findings.flatMap(({ approval }) => approval?.reads ?? [])
  const input = repeatableInput(request, reads)
  const shown =
    input.length <= MAX_INPUT
      ? input
      : `${input.slice(0, MAX_INPUT).toWellFormed()}… (${MAX_INPUT} of ${input.length} characters, SHA-256 ${sha256Hex(input)})`
  const rules = findings.map(({ reason }) => reason).join(', ')
  return [
    ...questions,
    '',
    `${request.server}/${request.name} with ${shown}`,
    `Asked by ${rules} of the policy. The call is sent only if you confirm.`,
  ]
    .map(visibleInLine)
    .join('\n')
}
