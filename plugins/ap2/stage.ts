// Verifies the mandates of a call and reports what is wrong with them as findings.
import {
  type Call,
  type CallRequest,
  type Clock,
  codeOfReason,
  type Denied,
  denied,
  effectOf,
  failed,
  type Identity,
  identity,
  type MaybePromise,
  type Meter,
  mandates,
  type Next,
  type Outcome,
  type Stage,
  verdict,
} from '@svc/core'
import { type NoticeParts, noticeOnDenial } from './denial-notice.js'
import { explainMandates } from './explain.js'
import type { IssuerKeys } from './keys/issuer-keys.js'
import { MandateFault, type MandateReason } from './mandate/fault.js'
import { isObject } from './mandate/text.js'
import { parsePresented } from './presented/presented.js'
import { type HeaderNames, presentedValues } from './presented/values.js'
import { unverifiedReport, verifiedReport } from './report.js'
import type { Requirement } from './requirement.js'
import { keyClaim, useClaims } from './use/claims.js'
import type { UseStore } from './use/store.js'
import { UseHold } from './use/use-hold.js'
import { checkArguments } from './verify/arguments.js'
import type { VerifiedMandate, Verifier } from './verify/verifier.js'

export interface Ap2StageParts {
  readonly requirement: Requirement
  readonly headers: HeaderNames
  readonly verifier: Verifier
  readonly keys: IssuerKeys
  readonly store: UseStore
  /** Names of the gateway for a call to this server. */
  readonly audiences: (server: string) => ReadonlySet<string>
  readonly clock: Clock
  readonly meter: Meter | undefined
  /** The tenant of callers that no stage identifies. */
  readonly tenant: string
  /** Absent where nobody is notified of denials. */
  readonly notice: NoticeParts | undefined
}

export class Ap2Stage implements Stage {
  #parts: Ap2StageParts

  constructor(parts: Ap2StageParts) {
    this.#parts = parts
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#parts.store.resource?.start(signal)
  }

  async stop(): Promise<void> {
    await this.#parts.store.resource?.stop()
    await this.#parts.keys.close()
  }

  ready(): string | undefined {
    return this.#parts.store.resource?.ready()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const { parsedRequest } = call
    if (parsedRequest !== undefined && !this.#parts.requirement.applies(parsedRequest)) return next()
    return this.#handleTool(call, next)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { requirement, headers, keys } = this.#parts
    explainMandates(call, await call.request(), { requirement, headers, keys }, say)
    return next()
  }

  async #handleTool(call: Call, next: Next): Promise<Outcome> {
    const request = await call.request()
    const { requirement, notice, meter } = this.#parts
    if (!requirement.applies(request)) return next()
    if (notice !== undefined) noticeOnDenial(call, this.#callerOf(call).tenant, notice)
    try {
      const verified = await this.#verify(call, request)
      if (verified === undefined) return next()
      const unavailable = await this.#reserve(call, request, verified)
      if (unavailable !== undefined) return unavailable
      meter?.count('svc_ap2_verified_total')
    } catch (fault) {
      if (!(fault instanceof MandateFault)) throw fault
      this.#report(call, fault.reason, fault.message)
    }
    return next()
  }

  /** Undefined where the call has no mandate and needs none. Rejects with `MandateFault`. */
  async #verify(call: Call, request: CallRequest): Promise<readonly VerifiedMandate[] | undefined> {
    const { requirement, headers, verifier, audiences } = this.#parts
    const meta = request.params?.['_meta']
    const values = presentedValues(call.headers, isObject(meta) ? meta : undefined, headers)
    const isRequired = requirement.isRequired(call, request)
    if (values.size === 0) {
      if (!isRequired) return undefined
      throw new MandateFault('ap2_missing', 'the call needs a mandate, and has none')
    }
    const { signed, unsigned } = await parsePresented(values.values())
    const verified = await verifier.verify(signed, audiences(request.server))
    const authorizes = verified.some(({ kind }) => kind !== 'intent')
    if (isRequired && !authorizes) {
      throw new MandateFault('ap2_missing', 'the call needs a mandate for its action, and has an intent only')
    }
    for (const { terms } of verified) checkArguments(terms, request.args, requirement.bindingOf(request))
    if (verified.length === 0) return undefined
    const digests = unsigned.map(({ digest }) => digest)
    call.set(mandates, verifiedReport(call, verified, digests, headers))
    return verified
  }

  /** Ties the idempotency key to the mandates, and has them used when the call is sent. */
  async #reserve(
    call: Call,
    request: CallRequest,
    verified: readonly VerifiedMandate[],
  ): Promise<Outcome | undefined> {
    const { store, clock, requirement } = this.#parts
    const { server, name, idempotencyKey } = request
    const now = clock.now()
    const running = store.running()
    const isReportOnly = requirement.mode === 'observe'
    const caller = this.#callerOf(call)
    const key =
      idempotencyKey === null ? undefined : keyClaim({ caller, server, name, idempotencyKey }, verified, now)
    let isHeld = false
    if (key !== undefined) {
      try {
        const { state } = await running.claim(key)
        isHeld = state === 'claimed'
        if (state === 'reused') {
          throw new MandateFault(
            'ap2_idempotency_mismatch',
            'the idempotency key was used with another mandate',
          )
        }
      } catch (cause) {
        if (cause instanceof MandateFault) throw cause
        if (!isReportOnly) return storeDown(cause)
      }
    }
    const hold = new UseHold({
      store: running,
      claims: useClaims(verified, now),
      key: isHeld ? key : undefined,
      replayed: () => this.#replayed(call),
      isReportOnly,
    })
    call.hold(hold)
    call.afterSettle(({ sent }) => (sent === 'no' ? undefined : hold.settle()))
    return undefined
  }

  #replayed(call: Call): Denied | undefined {
    const { requirement, meter } = this.#parts
    const detail = 'the mandate was used by another call'
    const finding = { ...requirement.finding('ap2_replayed', detail), isLate: true } as const
    call.addFinding(finding)
    meter?.count('svc_ap2_findings_total')
    const rule = call.get(verdict)
    if (rule !== undefined && effectOf(finding, rule) !== 'deny') return undefined
    const { reason, stage: type, level } = finding
    return denied(codeOfReason(reason), `Denied: ${reason} (${type}): ${detail}.`, {
      denial: { type, reason, ...(level === undefined ? {} : { level }) },
    })
  }

  #report(call: Call, reason: MandateReason, detail: string): void {
    const { requirement, meter } = this.#parts
    call.addFinding(requirement.finding(reason, detail))
    if (call.get(mandates) === undefined) call.set(mandates, unverifiedReport(reason))
    meter?.count('svc_ap2_findings_total')
  }

  #callerOf(call: Call): Identity {
    return call.get(identity) ?? { tenant: this.#parts.tenant, authenticated: false, roles: [] }
  }
}

function storeDown(cause: unknown): Outcome {
  return failed(
    'STORE_UNAVAILABLE',
    'It cannot be found out whether the mandate was used, so the call was not sent.',
    {
      cause,
      headers: { 'retry-after': '1' },
    },
  )
}
