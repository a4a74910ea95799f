// Describes for `svc policy explain` which mandates a call would need.
import { type Call, type CallRequest, sideEffects } from '@svc/core'
import type { IssuerKeys } from './keys/issuer-keys.js'
import type { HeaderNames } from './presented/values.js'
import type { Requirement } from './requirement.js'

export interface ExplainedParts {
  readonly requirement: Requirement
  readonly headers: HeaderNames
  readonly keys: IssuerKeys
}

const effects = {
  '': 'enforcement.deny_on decides about its findings',
  observe: 'its findings are reported and never deny',
  partial: 'enforcement.deny_on decides about its findings',
  full: 'each of its findings denies',
} as const

export function explainMandates(
  call: Call,
  request: CallRequest,
  { requirement, headers, keys }: ExplainedParts,
  say: (line: string) => void,
): void {
  if (!requirement.applies(request)) {
    const outside = requirement.outside(request, call.get(sideEffects))
    if (outside !== undefined) call.addFinding(outside)
    say(
      outside === undefined
        ? 'mandates do not apply: it is not a tool that ap2.tools.allow matches'
        : `${outside.reason}: ${outside.detail}`,
    )
    return
  }
  const isRequired = requirement.isRequired(call, request)
  const effect = effects[requirement.mode]
  say(`${isRequired ? 'needs a mandate' : 'verifies a mandate where the call has one'}; ${effect}`)
  say(`mandates are in ${headers.intent}, ${headers.cart} or ${headers.bundle}`)
  const { allowed } = keys
  say(`accepted issuers: ${allowed.length === 0 ? 'none, so every mandate is refused' : allowed.join(', ')}`)
  const binding = requirement.bindingOf(request)
  say(
    binding === undefined
      ? 'ap2.tools.bind has no entry for the tool: a mandate that bounds its arguments is refused'
      : `compared with the mandate: ${Object.entries(binding)
          .flatMap(([name, place]) => (name === 'totalUnit' ? [] : [`${name} at ${JSON.stringify(place)}`]))
          .join(', ')}`,
  )
  if (isRequired) say('assumes a valid mandate for these arguments')
}
