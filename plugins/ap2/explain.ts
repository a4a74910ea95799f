// Describes for `svc policy explain` which mandates a call would need.
import { type Call, type CallRequest, sideEffects } from '@svc/core'
import type { IssuerKeys } from './keys/issuer-keys.js'
import type { HeaderNames } from './presented/values.js'
import type { Requirement } from './requirement.js'
import type { Binding } from './verify/binding.js'

interface ExplainedParts {
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
  const reading = requirement.readingOf(request)
  const outside = requirement.outside(request, call.get(sideEffects))
  if (outside !== undefined) {
    call.addFinding(outside)
    say(`${outside.reason}: ${outside.detail}`)
  }
  if (reading === undefined) {
    if (outside === undefined) say('mandates do not apply: it is not a tool that ap2.tools.allow matches')
    return
  }
  if (reading !== request.reference) say(`mandates apply: the call can be read as ${reading}`)
  const isRequired = requirement.isRequired(call, request)
  const effect = effects[requirement.mode]
  say(`${isRequired ? 'needs a mandate' : 'verifies a mandate where the call has one'}; ${effect}`)
  say(`mandates are in ${headers.intent}, ${headers.cart} or ${headers.bundle}`)
  const { allowed } = keys
  say(`accepted issuers: ${allowed.length === 0 ? 'none, so every mandate is refused' : allowed.join(', ')}`)
  for (const binding of requirement.bindingsOf(request)) say(describeBinding(binding))
  if (isRequired) say('assumes a valid mandate for these arguments')
}

function describeBinding(binding: Binding | undefined): string {
  return binding === undefined
    ? 'ap2.tools.bind has no entry for the tool: a mandate that bounds its arguments is refused'
    : `compared with the mandate: ${Object.entries(binding)
        .flatMap(([name, place]) => (name === 'totalUnit' ? [] : [`${name} at ${JSON.stringify(place)}`]))
        .join(', ')}`
}
