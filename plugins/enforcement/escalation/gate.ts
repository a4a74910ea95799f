// What happens to a call that escalates: it meets the decision there is, or asks for one.
import {
  type Call,
  type CallRequest,
  type Denied,
  denied,
  type EscalationDesk,
  type EscalationRule,
  escalation,
  type Finding,
  type Identity,
  type Ids,
  identity,
  isSideEffecting,
  Refusal,
  redactor,
  sideEffects,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { Case } from './case.js'
import type { Cases } from './cases.js'
import { fingerprintOf, principalKeyOf } from './fingerprint.js'
import { Grant, refusesToSend, spent } from './grant.js'
import { callerOf } from './people.js'
import { covers, decided, holdsFor, standingOf } from './rules.js'
import type { Steps } from './steps.js'

/** Characters of the arguments that reviewers see. */
const SHOWN_ARGS = 2000
/** Characters; ours have fewer. */
const LONGEST_ID = 200
/** Identical calls that come at the same moment. */
const MOST_TRIES = 20

export interface GateParts {
  readonly rule: EscalationRule
  readonly cases: Cases
  readonly steps: Steps
  readonly desk: EscalationDesk
  readonly ids: Ids
  /** Tenant of calls that no token attributes. */
  readonly tenant: string
  /** The longest that a caller may wait, in milliseconds. */
  readonly maxWaitMs: number
}

/** A call with what is asked of people about it. */
interface Asked {
  readonly call: Call
  readonly request: CallRequest
  readonly caller: Identity
  readonly fingerprint: string
  readonly findings: readonly Finding[]
  readonly reasons: readonly string[]
  /** Hash of the idempotency key. */
  readonly key: string | null
}

export class Gate {
  #parts: GateParts

  constructor(parts: GateParts) {
    this.#parts = parts
  }

  /** Undefined lets the call through, with a hold on its approval. Rejects with `Refusal`. */
  async admit(call: Call, findings: readonly Finding[]): Promise<Denied | undefined> {
    const request = await call.request()
    const caller = call.get(identity) ?? { tenant: this.#parts.tenant, authenticated: false, roles: [] }
    const waitMs = waitOf(call, this.#parts.maxWaitMs)
    const { idempotencyKey } = request
    const escalationId = request.escalationId ?? escalationIn(call)
    const asked: Asked = {
      call,
      request,
      caller,
      fingerprint: fingerprintOf(request, caller),
      findings,
      reasons: [...new Set(findings.map(({ reason }) => reason))],
      key: idempotencyKey === null ? null : sha256Hex(idempotencyKey),
    }
    const found =
      escalationId === undefined ? await this.#standing(asked) : await this.#named(escalationId, asked)
    if (found === undefined) return tooMany(findings)
    const value = found.status === 'pending' && waitMs > 0 ? await this.#wait(found, waitMs, call) : found
    call.set(escalation, { id: value.id, status: value.status })
    return this.#answer(value, asked)
  }

  /** The escalation that the caller came back with. */
  async #named(id: string, { fingerprint, reasons }: Asked): Promise<Case> {
    const found = (await this.#parts.cases.find(id))?.value
    if (found?.fingerprint === fingerprint && covers(found, reasons)) return found
    throw new Refusal(
      'BAD_REQUEST',
      'x-escalation-id names no escalation of this very call: the same tool, arguments and caller.',
    )
  }

  /** The escalation that holds for this call, or a new one; undefined where the caller has too many. */
  async #standing(asked: Asked): Promise<Case | undefined> {
    const { cases } = this.#parts
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const latest = (await cases.latest(asked.fingerprint))?.value
      if (latest !== undefined) {
        const standing = standingOf(latest, cases.now, asked.key)
        if (holdsFor(latest, standing, cases.now, asked.reasons)) return latest
      }
      const value = this.#newCase(asked)
      const opened = await cases.open(value, latest?.id)
      if (opened === 'full') return undefined
      if (opened === 'raced') continue
      await this.#record(value, asked.caller)
      return value
    }
    throw new Refusal('STORE_UNAVAILABLE', 'Too many calls like this one come at once.')
  }

  async #record(value: Case, caller: Identity): Promise<void> {
    const { cases, steps } = this.#parts
    try {
      await steps.opened(value, caller)
      if (value.status !== 'pending') await steps.decided(value)
    } catch (fault) {
      await cases.withdraw(value)
      throw fault
    }
  }

  async #wait(found: Case, waitMs: number, call: Call): Promise<Case> {
    const { desk, cases } = this.#parts
    const stay = call.onDisconnect(() => {
      call.abort('UPSTREAM_UNREACHABLE', 'The caller left before a person had decided.')
    })
    const done = call.pauseTimeout()
    try {
      await desk.wait(found.id, waitMs, call.signal)
      return (await cases.find(found.id))?.value ?? found
    } finally {
      done()
      stay()
    }
  }

  #answer(value: Case, asked: Asked): Denied | undefined {
    const { cases, steps } = this.#parts
    const { call, caller, key, findings, reasons } = asked
    if (call.abortState.aborted) return pending(value, findings)
    const refusal = { denial: denialOf(findings), key }
    switch (standingOf(value, cases.now, key)) {
      case 'pending':
        return pending(value, findings)
      case 'rejected':
        return rejected(value, findings)
      case 'usable':
        // Waited for together with one that escalates for less: what this one adds has been seen by nobody.
        if (!covers(value, reasons)) return pending(value, findings)
        call.hold(new Grant({ cases, steps, value, caller, refusal }, call))
        return undefined
      case 'used_by_key':
        call.hold(refusesToSend(value, refusal))
        return undefined
      default:
        return spent(value, refusal)
    }
  }

  #newCase({ call, request, caller, fingerprint, findings, reasons }: Asked): Case {
    const { cases, ids, rule } = this.#parts
    const { showsArguments, severity, ...kept } = rule
    const id = `esc_${ids.traceId()}`
    const now = cases.now
    const redacts = call.get(redactor)
    const name = caller.user ?? caller.clientId ?? caller.userId
    const detail = findings.flatMap((finding) => finding.detail ?? []).join('; ')
    const value: Case = {
      id,
      fingerprint,
      tenant: caller.tenant,
      server: request.server,
      tool: request.name,
      reference: request.reference,
      ...(showsArguments
        ? { args: preview(request.canonicalArgs, (text) => redacts?.text(text) ?? text) }
        : {}),
      inputSha256: sha256Hex(request.canonicalArgs),
      principal: name === undefined ? 'nobody known' : (redacts?.pseudonym(name) ?? name),
      principalKey: principalKeyOf(caller),
      caller: callerOf(id, caller),
      reasons,
      ...(detail === '' ? {} : { detail: redacts?.text(detail) ?? detail }),
      severity: severity ?? (isSideEffecting(request, call.get(sideEffects)) ? 'high' : 'medium'),
      rule: kept,
      status: 'pending',
      votes: [],
      traceId: call.trace.traceId,
      spanId: call.trace.spanId,
      createdAt: now,
      expiresAt: now + rule.ttlMs,
    }
    return rule.strategy === 'auto_allow'
      ? { ...decided(value, 'approved', now), decidedBy: 'strategy' }
      : value
  }
}

/** Redacted before it is cut, or half a name would stay. */
function preview(args: string, redacted: (text: string) => string): string {
  const text = redacted(args.slice(0, 4 * SHOWN_ARGS))
  const isWhole = args.length <= 4 * SHOWN_ARGS && text.length <= SHOWN_ARGS
  return isWhole ? text : `${text.slice(0, SHOWN_ARGS).toWellFormed()}…`
}

/** What the caller names in its header. */
function escalationIn({ headers }: Call): string | undefined {
  const named = headers['x-escalation-id']
  if (named === undefined) return undefined
  if (typeof named !== 'string' || named === '' || named.length > LONGEST_ID) {
    throw new Refusal('BAD_REQUEST', `x-escalation-id: expected one id of 1 to ${LONGEST_ID} characters.`)
  }
  return named
}

/** Milliseconds; 0 where the caller does not want to wait. */
function waitOf({ headers }: Call, most: number): number {
  const wanted = headers['x-escalation-wait']
  if (wanted === undefined) return 0
  if (typeof wanted !== 'string' || !/^\d{1,9}$/.test(wanted)) {
    throw new Refusal('BAD_REQUEST', 'x-escalation-wait: expected a whole number of seconds.')
  }
  return Math.min(Number(wanted) * 1000, most)
}

function pending({ id, status }: Case, findings: readonly Finding[]): Denied {
  return denied(
    'ESCALATION_PENDING',
    `A person has to decide: ${inWords(findings)}. Once it is approved, repeat the call with x-escalation-id.`,
    { ...denialOf(findings), escalation: { id, status } },
  )
}

function rejected({ id, status, decidedBy }: Case, findings: readonly Finding[]): Denied {
  const by = decidedBy === 'expiry' ? 'Nobody approved in time' : 'A person decided against the call'
  return denied('ESCALATION_REJECTED', `${by}: ${inWords(findings)}.`, {
    ...denialOf(findings),
    escalation: { id, status },
  })
}

function tooMany(findings: readonly Finding[]): Denied {
  return denied('RATE_LIMITED', 'Too many calls of yours wait for a person to decide.', {
    ...denialOf(findings),
    headers: { 'retry-after': '60' },
  })
}

function denialOf([first]: readonly Finding[]): Pick<Denied, 'denial'> {
  if (first === undefined) return {}
  const level = first.level === undefined ? {} : { level: first.level }
  return { denial: { ...level, type: first.stage, reason: first.reason } }
}

function inWords(findings: readonly Finding[]): string {
  return findings
    .map(({ reason, detail }) => (detail === undefined ? reason : `${reason}, ${detail}`))
    .join('; ')
}
