// Handles a call that escalates: applies the decision that exists, or opens an escalation.
import {
  type Call,
  type CallRequest,
  canonicalInput,
  type Denied,
  type EscalationRule,
  type EscalationService,
  emergencyReason,
  escalation,
  type Finding,
  type Identity,
  type Ids,
  identity,
  isRefusal,
  isSideEffecting,
  mayRunInEmergency,
  principalKeyOf,
  Refusal,
  redactor,
  repeatableInput,
  servedDefinition,
  sideEffects,
} from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { ApprovalHold, denialOfUsed, denyingHold } from './approval-hold.js'
import type { EscalationEvents } from './events.js'
import { denialOf, emergencyRefused, pending, rejected, tooMany } from './refusals.js'
import type { EscalationRepository, NewEscalation } from './repository.js'
import {
  appliesTo,
  approvalStateOf,
  coverageOf,
  covers,
  decided,
  type StoredEscalation,
} from './stored-escalation.js'
import { hashesOfNames } from './voting-service.js'

/** Characters of the arguments that reviewers see. */
const MAX_SHOWN_ARGS = 2000
/** Maximum length of an id, or of the reason for an emergency, in characters. */
const MAX_TEXT = 200
/** Maximum attempts to open an escalation while identical calls open one. */
const MAX_TRIES = 20

interface HandlerParts {
  readonly rule: EscalationRule
  readonly repository: EscalationRepository
  readonly events: EscalationEvents
  readonly service: EscalationService
  readonly ids: Ids
  /** The tenant of calls without a token. */
  readonly tenant: string
  /** The longest wait of a caller, in milliseconds. */
  readonly maxWaitMs: number
}

/** A call with the data that reviewers decide about. */
interface EscalatedCall {
  readonly call: Call
  readonly request: CallRequest
  readonly caller: Identity
  readonly fingerprint: string
  readonly findings: readonly Finding[]
  readonly reasons: readonly string[]
  /** What an approval has to cover. */
  readonly wanted: readonly string[]
  /** Whose approval is needed. */
  readonly setId: string | undefined
  /** Hash of the idempotency key. */
  readonly key: string | null
  /** Why it is to run before it is approved, in the words of a caller who may have that. */
  readonly emergency: string | undefined
}

export class EscalationHandler {
  #parts: HandlerParts

  constructor(parts: HandlerParts) {
    this.#parts = parts
  }

  /** Undefined lets the call through, with a hold on its approval. Rejects with `Refusal`. */
  async admit(call: Call, findings: readonly Finding[]): Promise<Denied | undefined> {
    const request = await call.request()
    const caller = call.get(identity) ?? { tenant: this.#parts.tenant, authenticated: false, roles: [] }
    const waitMs = waitOf(call, this.#parts.maxWaitMs)
    const emergency = emergencyOf(call, request)
    if (emergency !== undefined && !mayRunInEmergency(caller, this.#parts.rule)) {
      return emergencyRefused(findings)
    }
    const { idempotencyKey } = request
    const key = idempotencyKey === null ? null : sha256Hex(idempotencyKey)
    const escalated = this.#bySet(findings).map(([setId, ofSet]): EscalatedCall => {
      const isOwnSet = setId !== this.#parts.rule.approvalSetId
      return {
        call,
        request,
        caller,
        fingerprint: fingerprintOf(call, request, caller, isOwnSet ? setId : undefined),
        findings: ofSet,
        reasons: [...new Set(ofSet.map(({ reason }) => reason))],
        wanted: [...new Set(ofSet.map(coverageOf))],
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
      if (value === undefined) return tooMany(one.findings, emergency !== undefined)
      found.push([value, one])
    }
    return this.#decisionOf(found, waitMs, call)
  }

  /** The findings by the approval set that decides about them. A call needs the approval of each. */
  #bySet(findings: readonly Finding[]): [string | undefined, readonly Finding[]][] {
    const bySet = new Map<string | undefined, Finding[]>()
    for (const finding of findings) {
      const setId = finding.approval?.setId ?? this.#parts.rule.approvalSetId
      bySet.set(setId, [...(bySet.get(setId) ?? []), finding])
    }
    return [...bySet]
  }

  /** Undefined if every escalation is approved; else the response of the first that is not, which the record names. */
  async #decisionOf(
    found: readonly [StoredEscalation, EscalatedCall][],
    waitMs: number,
    call: Call,
  ): Promise<Denied | undefined> {
    const until = this.#parts.repository.now + waitMs
    let refused: { value: StoredEscalation; response: Denied } | undefined
    let last: StoredEscalation | undefined
    for (const [value, one] of found) {
      const leftMs = until - this.#parts.repository.now
      // Once one set has refused the call, or not decided in time, the others are not waited for.
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
    const found = (await this.#parts.repository.find(id))?.value
    const isOfCall = escalated.some(
      ({ fingerprint, wanted }) => found?.fingerprint === fingerprint && covers(found, wanted),
    )
    if (isOfCall) return found
    throw new Refusal(
      'BAD_REQUEST',
      'x-escalation-id names no escalation of this very call: the same tool, arguments, params and caller.',
    )
  }

  /** The escalation that applies to this call, or a new one; undefined if the caller has too many. */
  async #existing(escalated: EscalatedCall): Promise<StoredEscalation | undefined> {
    const { repository } = this.#parts
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const latest = (await repository.latest(escalated.fingerprint))?.value
      if (latest !== undefined) {
        const state = approvalStateOf(latest, repository.now, escalated.key)
        const applies = appliesTo(latest, state, repository.now, escalated.wanted)
        if (applies && !isOverruled(latest, escalated)) return latest
      }
      const created = this.#newEscalation(escalated)
      const opened = await repository.open(created, latest?.id)
      if (opened === 'full') return undefined
      if (opened === 'raced') continue
      await this.#record(created.value, escalated.caller)
      if (latest !== undefined && isOverruled(latest, escalated)) await this.#overrule(latest)
      return created.value
    }
    throw new Refusal('STORE_UNAVAILABLE', 'Too many identical calls arrive at once.')
  }

  async #record(value: StoredEscalation, caller: Identity): Promise<void> {
    const { repository, events } = this.#parts
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
  async #overrule({ id }: StoredEscalation): Promise<void> {
    const { repository, events } = this.#parts
    const { now } = repository
    let isOwn = false
    const value = await repository.change(id, (found) => {
      isOwn = found.status === 'pending'
      return isOwn ? { ...decided(found, 'rejected', now), decidedBy: 'emergency' } : found
    })
    if (value === undefined || !isOwn) return
    await events.decided(value)
    await repository.removeInput(value)
  }

  async #wait(found: StoredEscalation, waitMs: number, call: Call): Promise<StoredEscalation> {
    const { service, repository } = this.#parts
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
    const { repository, events } = this.#parts
    const { call, caller, key, findings, wanted } = escalated
    const { abortState } = call
    // Only after a drain can the caller ask again.
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

  #newEscalation(escalated: EscalatedCall): NewEscalation {
    const { call, request, caller, fingerprint, findings, reasons, wanted, setId, emergency } = escalated
    const { repository, ids, rule } = this.#parts
    const { showsArguments, severity, isForRulingsAlone: _, approvalSetId: __, ...kept } = rule
    const id = `esc_${ids.traceId()}`
    const now = repository.now
    const redacts = call.get(redactor)
    const name = caller.user ?? caller.clientId ?? caller.userId
    const input = canonicalInput(request)
    const shown = showsArguments ? (redacts?.text(input) ?? input) : undefined
    const isTruncated = shown !== undefined && shown.length > MAX_SHOWN_ARGS
    const detail = findings.flatMap((finding) => finding.detail ?? []).join('; ')
    const value: StoredEscalation = {
      id,
      fingerprint,
      tenant: caller.tenant,
      server: request.server,
      tool: request.name,
      reference: request.reference,
      ...(shown === undefined ? {} : { args: preview(shown) }),
      inputSha256: sha256Hex(input),
      ...(isTruncated ? { wholeSha256: sha256Hex(shown) } : {}),
      principal: name === undefined ? 'nobody known' : (redacts?.pseudonym(name) ?? name),
      personKey: personKeyOf(caller),
      caller: hashesOfNames(id, caller),
      reasons,
      ...(wanted.every((one) => reasons.includes(one)) ? {} : { covers: wanted }),
      ...(detail === '' ? {} : { detail: redacts?.text(detail) ?? detail }),
      severity: severity ?? (isSideEffecting(request, call.get(sideEffects)) ? 'high' : 'medium'),
      rule: { ...kept, ...(setId === undefined ? {} : { approvalSetId: setId }) },
      status: 'pending',
      votes: [],
      traceId: call.trace.traceId,
      spanId: call.trace.spanId,
      createdAt: now,
      expiresAt: now + rule.ttlMs,
    }
    if (emergency !== undefined) {
      const reason = redactedBy(call, emergency)
      const begun = { ...decided(value, 'approved', now), decidedBy: 'emergency' } as const
      return {
        value: { ...begun, emergency: { reason, review: 'open' } },
        input: isTruncated ? shown : undefined,
      }
    }
    return rule.strategy === 'auto_allow'
      ? { value: { ...decided(value, 'approved', now), decidedBy: 'strategy' }, input: undefined }
      : { value, input: isTruncated ? shown : undefined }
  }
}

/**
 * The key under which pending escalations are counted: a person has the same number through several clients as through
 * one.
 */
function personKeyOf(caller: Identity): string {
  if (caller.user === undefined) return principalKeyOf(caller)
  const { client, clientId, ...person } = caller
  return principalKeyOf(person)
}

/** Whether the call runs in an emergency although people have not decided yet. Their rejection stands. */
function isOverruled({ status }: StoredEscalation, { emergency }: EscalatedCall): boolean {
  return emergency !== undefined && status === 'pending'
}

function redactedBy(call: Call, text: string): string {
  return call.get(redactor)?.text(text) ?? text
}

/** The beginning of the input; a cut text ends with `…`, with which no JSON ends. */
function preview(shown: string): string {
  return shown.length <= MAX_SHOWN_ARGS ? shown : `${shown.slice(0, MAX_SHOWN_ARGS).toWellFormed()}…`
}

/** The text in a header of the caller. */
function textOfHeader({ headers }: Call, name: string): string | undefined {
  const text = headers[name]
  if (text === undefined) return undefined
  if (typeof text !== 'string' || text.trim() === '' || text.length > MAX_TEXT) {
    throw new Refusal('BAD_REQUEST', `${name}: expected 1 to ${MAX_TEXT} characters.`)
  }
  return text
}

/** The reason, as the caller states it. */
function emergencyOf(call: Call, { emergency }: CallRequest): string | undefined {
  return (emergency ?? textOfHeader(call, 'x-escalation-emergency'))?.toWellFormed()
}

/** The wait that the caller asks for, in milliseconds; 0 without one. */
function waitOf({ headers }: Call, maxMs: number): number {
  const wanted = headers['x-escalation-wait']
  if (wanted === undefined) return 0
  if (typeof wanted !== 'string' || !/^\d{1,9}$/.test(wanted)) {
    throw new Refusal('BAD_REQUEST', 'x-escalation-wait: expected a whole number of seconds.')
  }
  return Math.min(Number(wanted) * 1000, maxMs)
}

/**
 * Identifies a call, so that an approval lets the same call through and no other: SHA-256, hex, over the canonical JSON
 * (RFC 8785) of principal, server, tool and input, and of the MCP method if the reference does not determine it: a
 * prompt or a resource can be read, completed or subscribed to. A tool is called over either protocol. The input is
 * canonical already, and the members stand in the order of their names. Each approval set that a rule names has
 * escalations of its own. A definition that the caller was served since is another call, too.
 */
function fingerprintOf(
  call: Call,
  request: CallRequest,
  caller: Identity,
  setId: string | undefined,
): string {
  const { kind, method, server, reference } = request
  const definition = call.get(servedDefinition)?.sha256 ?? null
  const rest = canonicalize({
    ...(definition === null ? {} : { definition }),
    ...(kind === 'tool' ? {} : { method }),
    principal: principalKeyOf(caller),
    server,
    ...(setId === undefined ? {} : { set: setId }),
    tool: reference,
  })
  return sha256Hex(`{"args":${repeatableInput(request)},${rest.slice(1)}`)
}
