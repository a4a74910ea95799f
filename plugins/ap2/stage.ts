// Verifies the mandates of a call and reports what is wrong with them as findings.
import {
  type Call,
  type CallRequest,
  type Clock,
  type Denied,
  type DoctorCheck,
  denialBy,
  effectOf,
  type Finding,
  type Identity,
  identity,
  type MandateReport,
  type MaybePromise,
  type Meter,
  mandates,
  type Next,
  type Notices,
  type Outcome,
  type Stage,
  type StageHealth,
  sideEffects,
  verdict,
} from '@svc/core'
import { isJsonObject, type JsonObject, membersLike, messageOf } from '@svc/core/json'
import type { DidWeb } from './keys/did-web.js'
import type { IssuerKeys } from './keys/issuer-keys.js'
import { MandateError, type MandateReason } from './mandate/error.js'
import type { parsePresented } from './parse-mandates.js'
import { type HeaderNames, presentedValues } from './presented.js'
import { unverifiedReport, verifiedReport } from './report.js'
import { explainMandates, type MandateRequirement } from './requirement.js'
import {
  isOlderThan,
  keyClaim,
  type Reservation,
  UseHold,
  type UseStore,
  unavailable,
  useClaims,
} from './use-hold.js'
import { assertedOpenCheckout, checkArguments } from './verify/arguments.js'
import type { MandateVerifier, VerifiedMandate } from './verify/verifier.js'

export interface Verification {
  readonly parse: typeof parsePresented
  readonly verifier: MandateVerifier
}

interface Ap2StageOptions {
  readonly requirement: MandateRequirement
  readonly headers: HeaderNames
  /** Loads the code that reads mandates, which most calls do not have. */
  readonly verification: () => Promise<Verification>
  readonly keys: IssuerKeys
  /** Closed with the stage. */
  readonly web: DidWeb
  readonly store: UseStore
  /** The names of the gateway as an audience for a call to this server. */
  readonly audiences: (server: string) => ReadonlySet<string>
  readonly clock: Clock
  readonly meter: Meter | undefined
  /** The tenant of callers without an identity. */
  readonly tenant: string
  /** Absent if denials cause no notices. */
  readonly notice: NoticeRecipient | undefined
}

interface Verified {
  readonly verified: readonly VerifiedMandate[]
  readonly report: MandateReport
}

const wasUsed = 'the mandate was used by another call'

export class Ap2Stage implements Stage {
  readonly effects = 'stores'
  #options: Ap2StageOptions
  #verification: Promise<Verification> | undefined

  constructor(options: Ap2StageOptions) {
    this.#options = options
  }

  async start(signal: AbortSignal): Promise<void> {
    const { resource } = this.#options.store
    await resource?.start(signal)
    // The store's guard logs a failure; a store that does not respond refuses each mandate, too.
    await resource?.running.noticeLoss().catch(() => undefined)
  }

  async stop(): Promise<void> {
    await this.#options.store.resource?.stop()
    await this.#options.web.close()
  }

  health(): StageHealth | undefined {
    return this.#options.store.resource?.health()
  }

  async doctor(): Promise<readonly DoctorCheck[]> {
    const { keys, web } = this.#options
    try {
      return await Promise.all(keys.allowed.map((issuer) => checkIssuer(keys, issuer)))
    } finally {
      await web.close()
    }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const { parsedRequest } = call
    const { requirement } = this.#options
    const rule = requirement.ruleFor(call)
    if (rule !== undefined) call.addReferenceRule(rule)
    if (parsedRequest !== undefined && !requirement.applies(parsedRequest)) {
      return this.#outside(call, parsedRequest, next)
    }
    return this.#handleTool(call, next)
  }

  async #handleTool(call: Call, next: Next): Promise<Outcome> {
    const request = await call.request()
    const { requirement, notice, meter } = this.#options
    if (call.isNoted) explainMandates(call, request, this.#options)
    if (!requirement.applies(request)) return this.#outside(call, request, next)
    if (notice !== undefined) noticeOnDenial(call, this.#callerOf(call).tenant, notice)
    const outside = requirement.outside(request, call.get(sideEffects))
    if (outside !== undefined) this.#addFinding(call, outside)
    try {
      const found = await this.#verify(call, request)
      if (found === undefined) return this.#withoutMandates(call, request, next)
      const refusal = await this.#reserve(call, request, found.verified)
      if (refusal !== undefined) return refusal
      call.set(mandates, found.report)
      meter?.count('svc_ap2_verified_total')
    } catch (error) {
      if (!(error instanceof MandateError)) throw error
      this.#report(call, error.reason, error.message)
    }
    return next()
  }

  /** Undefined if the call has no mandate and needs none. Rejects with `MandateError`. */
  async #verify(call: Call, request: CallRequest): Promise<Verified | undefined> {
    const { requirement, headers, verification, audiences } = this.#options
    const values = presentedValues(call.headers, metaOf(request), headers)
    const isRequired = requirement.isRequired(call, request)
    if (values.size === 0) {
      if (!isRequired) return undefined
      throw new MandateError('ap2_missing', 'the call needs a mandate, and has none')
    }
    this.#verification ??= verification()
    const { parse, verifier } = await this.#verification
    const { signed, unsignedIntents } = await parse(values.values())
    const bindings = requirement.bindingsOf(request)
    const openCheckoutHash = assertedOpenCheckout(bindings, request.args)
    const context = { audiences: audiences(request.server), openCheckoutHash }
    const verified = await verifier.verify(signed, context)
    if (isRequired && !verified.some(({ kind }) => requirement.authorizes(kind))) {
      throw new MandateError('ap2_missing', 'the call needs a mandate for its action, and has others only')
    }
    if (verified.length === 0) return undefined
    const terms = verified.map((mandate) => mandate.terms)
    for (const binding of bindings) checkArguments(terms, request.args, binding)
    const asserted = requirement.assertedBy(verified, bindings, openCheckoutHash)
    return { verified, report: verifiedReport(call, { verified, unsignedIntents, asserted }, headers) }
  }

  /** Reserves the mandates for this call, and ties its idempotency key to them. Rejects with `MandateError`. */
  async #reserve(
    call: Call,
    { server, name, idempotencyKey }: CallRequest,
    verified: readonly VerifiedMandate[],
  ): Promise<Outcome | undefined> {
    const { store, clock, requirement } = this.#options
    const now = clock.now()
    const isReportOnly = requirement.mode === 'observe'
    const keyed = { caller: this.#callerOf(call), server, name, idempotencyKey: idempotencyKey ?? '' }
    const hold = new UseHold({
      store: store.running(),
      tokens: useClaims(verified, keyed.caller.tenant, now),
      isOlderThan: (loss) => verified.some((mandate) => isOlderThan(mandate, loss)),
      key: idempotencyKey === null ? undefined : keyClaim(keyed, verified, now),
      replayed: () => this.#replayed(call),
      isReportOnly,
    })
    call.hold(hold)
    call.afterSettle(({ sent }) => (sent === 'no' ? undefined : hold.settle()))
    let reservation: Reservation
    try {
      reservation = await hold.reserve()
    } catch {
      // The store's guard has logged the cause, unless the tenant has too many keys.
      return isReportOnly ? undefined : unavailable()
    }
    if (reservation === 'replayed') throw new MandateError('ap2_replayed', wasUsed)
    if (reservation === 'other_mandate') {
      throw new MandateError('ap2_idempotency_mismatch', 'the idempotency key was used with another mandate')
    }
    return undefined
  }

  #replayed(call: Call): Denied | undefined {
    const { requirement, meter } = this.#options
    const finding = { ...requirement.finding('ap2_replayed', wasUsed), isLate: true } as const
    call.addFinding(finding)
    meter?.count('svc_ap2_findings_total')
    const rule = call.get(verdict)
    if (rule !== undefined && effectOf(finding, rule) !== 'deny') return undefined
    return denialBy([finding])
  }

  /** Handles a call that mandates do not apply to. */
  #outside(call: Call, request: CallRequest, next: Next): MaybePromise<Outcome> {
    const { requirement, notice } = this.#options
    const finding = requirement.outside(request, call.get(sideEffects))
    if (finding !== undefined) {
      if (notice !== undefined) noticeOnDenial(call, this.#callerOf(call).tenant, notice)
      this.#addFinding(call, finding)
    }
    return this.#withoutMandates(call, request, next)
  }

  /** The call goes on without a valid mandate: unverified members of `_meta` are not forwarded, as with headers. */
  #withoutMandates(call: Call, request: CallRequest, next: Next): MaybePromise<Outcome> {
    const { headers } = this.#options
    const meta = metaOf(request)
    if (meta !== undefined && Object.values(headers).some((name) => membersLike(meta, name).length > 0)) {
      call.set(mandates, unverifiedReport(headers))
    }
    return next()
  }

  #report(call: Call, reason: MandateReason, detail: string): void {
    const { requirement, headers } = this.#options
    this.#addFinding(call, requirement.finding(reason, detail))
    call.set(mandates, unverifiedReport(headers, reason))
  }

  #addFinding(call: Call, finding: Finding): void {
    call.addFinding(finding)
    this.#options.meter?.count('svc_ap2_findings_total')
  }

  #callerOf(call: Call): Identity {
    return call.get(identity) ?? { tenant: this.#options.tenant, authenticated: false, roles: [] }
  }
}

function metaOf({ params }: CallRequest): JsonObject | undefined {
  const meta = params?.['_meta']
  return isJsonObject(meta) ? meta : undefined
}

interface NoticeRecipient {
  readonly notices: Notices
  readonly url: string | undefined
}

/** The notice of a call that was denied for its mandates, to `policyWebhookUrl` and the policy's other subscribers. */
function noticeOnDenial(call: Call, tenant: string, { notices, url }: NoticeRecipient): void {
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

async function checkIssuer(keys: IssuerKeys, issuer: string): Promise<DoctorCheck> {
  try {
    const found = await keys.keysOf(issuer)
    if (found.length > 0) return { severity: 'ok', message: `${issuer} has ${found.length} key(s)` }
    return { severity: 'error', message: `${issuer} has no key that signs`, hint: 'see ap2.trust.issuers' }
  } catch (error) {
    const hint = 'pin its keys in ap2.trust.issuers, or make its DID document reachable'
    return { severity: 'error', message: `${issuer}: ${messageOf(error)}`, hint }
  }
}
