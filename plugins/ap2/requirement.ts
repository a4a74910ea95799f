// Decides which calls need a mandate, and the effect of findings about it.

import {
  type Call,
  type CallRequest,
  type Finding,
  isSideEffecting,
  type ReferenceRule,
  type SideEffectKnowledge,
  sideEffects,
} from '@svc/core'
import { defined } from '@svc/core/json'
import {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternSet,
  parseReference,
} from '@svc/core/match'
import type { Ap2Config } from './config.js'
import type { IssuerKeys } from './keys/issuer-keys.js'
import type { MandateReason } from './mandate/error.js'
import type { HeaderNames } from './presented.js'
import type { AssertedHashes } from './report.js'
import type { ArgumentBinding } from './verify/arguments.js'
import type { VerifiedMandate } from './verify/verifier.js'

type Judged = Pick<CallRequest, 'kind' | 'name' | 'reference' | 'readings' | 'args'>

export class MandateRequirement {
  readonly mode: Ap2Config['mode']
  readonly role: Ap2Config['role']
  #forSideEffects: boolean
  #tools: PatternSet | undefined
  #bindings: PatternMap<ArgumentBinding>

  constructor({ mode, role, requireForSideEffects, tools }: Ap2Config) {
    this.mode = mode
    this.role = role
    this.#forSideEffects = requireForSideEffects || mode === 'partial'
    this.#tools = tools.allow === undefined ? undefined : compilePatternSet(tools.allow)
    this.#bindings = compilePatternMap(tools.bind)
  }

  /** Whether mandates apply to the call. */
  applies(request: Judged): boolean {
    return this.readingOf(request) !== undefined
  }

  /** The reading of the call that mandates apply to; undefined if they do not apply. */
  readingOf({ kind, reference, readings }: Judged): string | undefined {
    if (kind !== 'tool') return undefined
    return this.#tools === undefined ? reference : this.#tools.findReading(readings)
  }

  /**
   * A finding for a call with side effects of a tool that mandates do not apply to under some reading, in the modes
   * that require mandates.
   */
  outside(request: Judged, knowledge: SideEffectKnowledge | undefined): Finding | undefined {
    const tools = this.#tools
    if (tools === undefined || (this.mode !== 'full' && this.mode !== 'partial')) return undefined
    const { kind, readings } = request
    const outside = readings.find((reading) => tools.findReading([reading]) === undefined)
    if (kind !== 'tool' || outside === undefined || !isSideEffecting(request, knowledge)) return undefined
    return this.finding(
      'ap2_tool_not_allowed',
      `${outside} may have side effects, and ap2.tools.allow has no match`,
    )
  }

  /** The finding about a tool in a list that no call may use, whatever its arguments. Undefined if every tool may be used. */
  ruleFor(call: Call): ReferenceRule | undefined {
    if (this.#tools === undefined || (this.mode !== 'full' && this.mode !== 'partial')) return undefined
    return (reference, kind) => {
      if (kind !== 'tool') return undefined
      const parts = parseReference(reference)
      const name = 'tool' in parts ? parts.tool : ''
      return this.outside({ kind, name, reference, readings: [reference], args: {} }, call.get(sideEffects))
    }
  }

  isRequired(call: Call, request: CallRequest): boolean {
    if (this.mode === 'full') return true
    return this.#forSideEffects && isSideEffecting(request, call.get(sideEffects))
  }

  /** Whether a mandate of this kind authorizes the action of a call; a payment service acts on payments alone. */
  authorizes(kind: VerifiedMandate['kind']): boolean {
    return this.role === 'payment' ? isPayment(kind) : kind !== 'intent'
  }

  /** What a payment service takes from the arguments, as the call has no checkout. */
  assertedBy(
    verified: readonly VerifiedMandate[],
    bindings: Iterable<ArgumentBinding | undefined>,
    openCheckoutHash: string | undefined,
  ): AssertedHashes {
    if (this.role !== 'payment' || !verified.every(({ kind }) => isPayment(kind) || kind === 'intent'))
      return {}
    const isBound = Array.from(bindings).some((binding) => binding?.checkoutHash !== undefined)
    const checkoutHash = verified.find(({ terms }) => terms.checkoutHash !== undefined)?.terms.checkoutHash
    return {
      ...(isBound && checkoutHash !== undefined ? { checkout_hash: checkoutHash } : {}),
      ...defined({ open_checkout_hash: openCheckoutHash }),
    }
  }

  /** The most specific binding of each reading; undefined for a reading without one. */
  bindingsOf({ readings }: CallRequest): ReadonlySet<ArgumentBinding | undefined> {
    const found = this.#bindings.lookup(readings).map((matches) => matches[0]?.value)
    // Looked up as written and folded, so that a name that differs from a bound one only in its fold has the same
    // binding.
    return new Set(found.map((binding, i) => binding ?? found[i ^ 1]))
  }

  finding(reason: MandateReason, detail: string): Finding {
    const finding = { reason, stage: 'ap2', level: 'gateway', detail }
    if (this.mode === 'observe') return { ...finding, ruling: 'observe' }
    return this.mode === 'full' ? { ...finding, ruling: 'deny' } : finding
  }
}

function isPayment(kind: VerifiedMandate['kind']): boolean {
  return kind === 'payment' || kind === 'user_payment'
}

const effects = {
  '': 'enforcement.deny_on decides about its findings',
  observe: 'its findings are reported and never deny',
  partial: 'enforcement.deny_on decides about its findings',
  full: 'each of its findings denies',
} as const

interface MandateRules {
  readonly requirement: MandateRequirement
  readonly headers: HeaderNames
  readonly keys: IssuerKeys
}

/** Notes which mandate the call needs, and by what it is judged. */
export function explainMandates(
  call: Call,
  request: CallRequest,
  { requirement, headers, keys }: MandateRules,
): void {
  const reading = requirement.readingOf(request)
  if (reading === undefined) {
    call.note('mandates do not apply: it is not a tool that ap2.tools.allow matches')
    return
  }
  if (reading !== request.reference) call.note(`mandates apply: the call can be read as ${reading}`)
  const needs = requirement.isRequired(call, request)
    ? 'needs a mandate'
    : 'verifies a mandate if the call has one'
  call.note(`${needs}; ${effects[requirement.mode]}`)
  if (requirement.role === 'payment') call.note('a payment mandate is verified without its checkout')
  call.note(`mandates are in ${headers.intent}, ${headers.cart} or ${headers.bundle}`)
  const { allowed } = keys
  call.note(
    `accepted issuers: ${allowed.length === 0 ? 'none, so every mandate is refused' : allowed.join(', ')}`,
  )
  for (const binding of requirement.bindingsOf(request)) call.note(describeBinding(binding))
}

function describeBinding(binding: ArgumentBinding | undefined): string {
  return binding === undefined
    ? 'ap2.tools.bind has no entry for the tool: a mandate that bounds its arguments is refused'
    : `compared with the mandate: ${Object.entries(binding)
        .flatMap(([name, place]) => (name === 'totalUnit' ? [] : [`${name} at ${JSON.stringify(place)}`]))
        .join(', ')}`
}
