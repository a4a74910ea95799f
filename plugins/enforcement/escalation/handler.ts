// Handles a call that escalates: applies the decision that exists, or opens an escalation.
import {
  type Call,
  clientForms,
  type Denied,
  denialOf,
  type EscalationRule,
  escalation,
  type FindingList,
  type Identity,
  type Ids,
  identity,
  isRefusal,
  Refusal,
  repeatableInput,
  type ToolLists,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { ApprovalHold, denialOfUsed, denyingHold } from './approval-hold.js'
import { appliesTo, approvalStateOf, coverageOf, coverageOfRule, covers } from './approval-state.js'
import { type EscalatedCall, emergencyOf, fingerprintOf, textOfHeader, waitOf } from './escalated-call.js'
import type { EscalationEvents } from './events.js'
import { newEscalation } from './new-escalation.js'
import { declined, emergencyRefused, pending, rejected, tooMany } from './refusals.js'
import type { EscalationRepository } from './repository.js'
import { type EscalationService, emergencyReason, mayRunInEmergency } from './service.js'
import { decided, type StoredEscalation } from './stored-escalation.js'
import { refusalOfUnlisted } from './unlisted-tool.js'

/** Maximum attempts to open an escalation while identical calls open one. */
const MAX_TRIES = 20

interface HandlerOptions {
  readonly rule: EscalationRule
  readonly repository: EscalationRepository
  readonly events: EscalationEvents
  readonly service: EscalationService
  readonly ids: Ids
  readonly policySha256: string | null
  /** The tenant of calls without a token. */
  readonly tenant: string
  /** The longest wait of a caller, in milliseconds. */
  readonly maxWaitMs: number
  readonly lists: ToolLists | undefined
}

export class EscalationHandler {
  #options: HandlerOptions

  constructor(options: HandlerOptions) {
    this.#options = options
  }

  /** Undefined lets the call through, with a hold on its approval. Rejects with `Refusal`. */
  async admit(call: Call, findings: FindingList): Promise<Denied | undefined> {
    const request = await call.request()
    const caller = call.get(identity) ?? { tenant: this.#options.tenant, authenticated: false, roles: [] }
    const waitMs = waitOf(call, this.#options.maxWaitMs)
    const emergency = emergencyOf(call, request)
    if (emergency !== undefined && !mayRunInEmergency(caller, this.#options.rule)) {
      return emergencyRefused(findings)
    }
    const { idempotencyKey } = request
    const key = idempotencyKey === null ? null : sha256Hex(idempotencyKey)
    const decision = coverageOfRule(this.#options.rule)
    const escalated = this.#bySet(findings).map(([setId, ofSet]): EscalatedCall => {
      const isOwnSet = setId !== this.#options.rule.approvalSetId
      const reads = ofSet.flatMap(({ approval }) => approval?.reads ?? [])
      const input = repeatableInput(request, reads)
      return {
        call,
        request,
        caller,
        fingerprint: fingerprintOf(call, request, caller, input, isOwnSet ? setId : undefined),
        input,
        findings: ofSet,
        reasons: [...new Set(ofSet.map(({ reason }) => reason))],
        wanted: [...new Set(ofSet.map(coverageOf)), ...decision],
        setId,
        key,
        emergency,
      }
    })
    const named = await this.#named(request.escalationId ?? textOfHeader(call, 'x-escalation-id'), escalated)
    const found: [StoredEscalation, EscalatedCall][] = []
    for (const one of escalated) {
      const isNamed = named?.fingerprint === one.fingerprint && !isOverruled(named, one)
      const value = isNamed ? named : await this.#existing(one)
      if ('kind' in value) return value
      found.push([value, one])
    }
    return this.#decisionOf(found, waitMs, call)
  }

  /** The findings by the approval set that decides about them. A call needs an approval of each set. */
  #bySet(findings: FindingList): [string | undefined, FindingList][] {
    const bySet = new Map<string | undefined, FindingList>()
    for (const finding of findings) {
      const setId = finding.approval?.setId ?? this.#options.rule.approvalSetId
      const known = bySet.get(setId)
      bySet.set(setId, known === undefined ? [finding] : [...known, finding])
    }
    return [...bySet]
  }

  /** Undefined if every escalation is approved; else the refusal of the first that is not, whose id the record has. */
  async #decisionOf(
    found: readonly [StoredEscalation, EscalatedCall][],
    waitMs: number,
    call: Call,
  ): Promise<Denied | undefined> {
    const until = this.#options.repository.now + waitMs
    let refused: { value: StoredEscalation; response: Denied } | undefined
    let last: StoredEscalation | undefined
    for (const [value, one] of found) {
      const leftMs = until - this.#options.repository.now
      // If one set has refused the call, or has not decided in time, the call does not wait for the others.
      const isAwaited = value.status === 'pending' && leftMs > 0 && refused === undefined
      const current = isAwaited ? await this.#wait(value, leftMs, call) : value
      const response = this.#response(current, one)
      last = current
      if (response !== undefined) refused ??= { value: current, response }
    }
    const shown = refused?.value ?? last
    if (shown !== undefined) call.set(escalation, { id: shown.id, status: shown.status })
    return refused?.response
  }

  /** The escalation whose id the caller sent. */
  async #named(
    id: string | undefined,
    escalated: readonly EscalatedCall[],
  ): Promise<StoredEscalation | undefined> {
    if (id === undefined) return undefined
    const found = (await this.#options.repository.find(id))?.value
    const ofCall = escalated.find(({ fingerprint }) => found?.fingerprint === fingerprint)
    if (found !== undefined && ofCall !== undefined) {
      if (covers(found, ofCall.wanted)) return found
      // The policy has changed since the gateway asked: the call escalates again.
      if (ofCall.call.get(clientForms)?.().asked === id) return undefined
    }
    throw new Refusal(
      'BAD_REQUEST',
      'x-escalation-id names no escalation of this very call: the same tool, arguments, params and caller.',
    )
  }

  /** The escalation that applies to this call, or a new one; a refusal if none may be opened. */
  async #existing(escalated: EscalatedCall): Promise<StoredEscalation | Denied> {
    const { repository, rule, ids, policySha256, lists } = this.#options
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const latest = (await repository.latest(escalated.fingerprint))?.value
      if (latest !== undefined) {
        const state = approvalStateOf(latest, repository.now, escalated.key)
        const applies = appliesTo(latest, state, repository.now, escalated.wanted)
        if (applies && !isOverruled(latest, escalated)) return latest
      }
      const unlisted =
        lists && rule.strategy !== 'auto_allow' && (await refusalOfUnlisted(escalated.call, lists))
      if (unlisted) return unlisted
      const created = newEscalation(escalated, { rule, ids, now: repository.now, policySha256 })
      const opened = await repository.open(created, latest?.id)
      if (opened === 'full') return tooMany(escalated.findings, escalated.emergency !== undefined)
      if (opened === 'raced') continue
      await this.#record(created.value, escalated.caller)
      if (latest !== undefined && isOverruled(latest, escalated)) await this.#overrule(latest)
      return created.value
    }
    throw new Refusal('STORE_UNAVAILABLE', 'Too many identical calls arrive at once.')
  }

  async #record(value: StoredEscalation, caller: Identity): Promise<void> {
    const { repository, events } = this.#options
    try {
      await events.opened(value, caller)
      if (value.emergency !== undefined) await events.beganEmergency(value, caller)
      else if (value.status !== 'pending') await events.decided(value)
    } catch (error) {
      await repository.withdraw(value)
      throw error
    }
  }

  /** Nobody needs to decide about a call that runs in an emergency: an approval would let it run once more. */
  async #overrule(overruled: StoredEscalation): Promise<void> {
    const { repository, events } = this.#options
    const { now } = repository
    let isOwn = false
    const value = await repository.change(overruled, (found) => {
      isOwn = found.status === 'pending'
      return isOwn ? { ...decided(found, 'rejected', now), decidedBy: 'emergency' } : found
    })
    if (value === undefined || !isOwn) return
    await events.decided(value)
    await repository.removeInput(value)
  }

  async #wait(found: StoredEscalation, waitMs: number, call: Call): Promise<StoredEscalation> {
    const { service, repository } = this.#options
    const unsubscribe = call.onDisconnect(() => {
      call.abort('CANCELLED', 'The caller disconnected before the decision.')
    })
    const resume = call.pauseTimeout()
    try {
      await service.wait(found.id, waitMs, call.signal)
      return (await repository.find(found.id))?.value ?? found
    } finally {
      resume()
      unsubscribe()
    }
  }

  #response(value: StoredEscalation, escalated: EscalatedCall): Denied | undefined {
    const { repository, events } = this.#options
    const { call, caller, key, findings, wanted } = escalated
    const { abortState } = call
    // After a drain the caller can ask again; after another abort it cannot.
    if (isRefusal(abortState.reason) && abortState.reason.code !== 'DRAINING') throw abortState.reason
    if (abortState.aborted) return pending(value, findings)
    const refusal = { denial: denialOf(findings), key }
    switch (approvalStateOf(value, repository.now, key)) {
      case 'pending':
        return pending(value, findings)
      case 'rejected':
        return rejected(value, findings)
      case 'usable':
        // The approval may come from an escalation with fewer reasons: reviewers have not seen the others.
        if (!covers(value, wanted)) return pending(value, findings)
        if (call.get(clientForms)?.().declined === value.id) return declined(value, findings)
        call.hold(new ApprovalHold({ repository, events, value, caller, refusal }, call))
        if (value.emergency !== undefined) {
          const detail = value.emergency.reason
          call.addFinding({ reason: emergencyReason, stage: 'enforcement', detail, ruling: 'report' })
        }
        return undefined
      case 'used_by_key':
        call.hold(denyingHold(value, refusal))
        return undefined
      default:
        return denialOfUsed(value, refusal)
    }
  }
}

/** Whether the call runs in an emergency before people have decided. A rejection still counts. */
function isOverruled({ status }: StoredEscalation, { emergency }: EscalatedCall): boolean {
  return emergency !== undefined && status === 'pending'
}
