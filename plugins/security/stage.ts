// Reports violations of the section's rules as findings, and limits the size and duration of calls.
import {
  after,
  type Call,
  type CallRequest,
  type Finding,
  isUnrecorded,
  type MaybePromise,
  type Next,
  type Outcome,
  type ReferenceRule,
  type Stage,
  sideEffects,
} from '@svc/core'
import { type ContentRule, checkContent } from './content-rules.js'
import { DurationLimit } from './duration-limit.js'
import { finding } from './findings.js'
import { limitResponseSize } from './response-size.js'
import type { SideEffectRule } from './side-effects.js'
import type { Timer } from './timer.js'
import type { AllowedVersions } from './versions.js'

interface SecurityRules {
  readonly versions: AllowedVersions | undefined
  /** The rules on strings in arguments. */
  readonly content: readonly ContentRule[]
  readonly sideEffects: SideEffectRule | undefined
  /** The limit of a request, and of a response. */
  readonly maxBytes: number | undefined
  readonly maxMs: number | undefined
  /** SHA-256, hex, of the keys of the section that decide whether this is found. */
  basisOf(reason: string): string
}

const MISSING_KEY = 'missing_idempotency_for_side_effect'
const TOO_LARGE = 'payload_too_large'

export class SecurityStage implements Stage {
  #rules: SecurityRules
  #timer: Timer
  #versionRule: ReferenceRule | undefined

  constructor(rules: SecurityRules, timer: Timer) {
    this.#rules = rules
    this.#timer = timer
    const { versions } = rules
    if (versions !== undefined) this.#versionRule = (reference, kind) => versions.check(reference, kind)
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const { maxMs } = this.#rules
    const duration = maxMs === undefined ? undefined : new DurationLimit(call, this.#timer, maxMs)
    return after(call.request(), (request) => this.#handleRequest(call, request, duration, next))
  }

  #explain(call: Call, request: CallRequest): void {
    const { versions, content, sideEffects: effects, maxBytes, maxMs } = this.#rules
    const found = call.findings.filter(({ stage }) => stage === 'security')
    for (const { reason, detail } of found) call.note(`${reason}: ${detail}`)
    if (found.length === 0) call.note('no findings before the call is sent')
    const allowed = request.kind === 'protocol' ? undefined : versions?.allowedFor(request.reference)
    call.note(`allow_versions: ${allowed === undefined ? 'does not apply' : allowed.join(', ')}`)
    for (const { key, rule } of content)
      call.note(`${key}: ${rule.sources.length === 0 ? 'allows nothing' : rule.sources.join(', ')}`)
    if (effects !== undefined) call.note(effects.describe(request))
    if (maxBytes !== undefined)
      call.note(
        `max_payload_kb: the request has ${request.bytes} bytes; the limit for it and its response is ${maxBytes}`,
      )
    if (maxMs !== undefined) call.note(`max_duration_ms: the limit is ${maxMs} ms`)
  }

  #handleRequest(call: Call, request: CallRequest, duration: DurationLimit | undefined, next: Next) {
    this.#inspect(call, request)
    if (call.isNoted) this.#explain(call, request)
    const { maxBytes } = this.#rules
    const outcome = next()
    // Without limits the outcome is returned unchanged, which adds no promise.
    if (duration === undefined && maxBytes === undefined) return outcome
    const limit = (settled: Outcome): Outcome => {
      if (settled.kind !== 'completed' || endsTimer(settled.body, request)) duration?.stop()
      if (settled.kind !== 'completed' || maxBytes === undefined) return settled
      return limitResponseSize(call, request.kind, settled, maxBytes)
    }
    return after(outcome, limit)
  }

  #inspect(call: Call, request: CallRequest): void {
    const { readings, kind } = request
    const { maxBytes, content, sideEffects: effects } = this.#rules
    if (this.#versionRule !== undefined) {
      call.addReferenceRule(this.#versionRule)
      for (const reading of readings) {
        const unpinned = this.#versionRule(reading, kind)
        if (unpinned === undefined) continue
        call.addFinding(unpinned)
        break
      }
    }
    for (const one of content) this.#check(call, one.reason, () => checkContent(request, [one]))
    if (effects !== undefined) {
      call.set(sideEffects, effects.knowledge)
      this.#check(call, MISSING_KEY, () => effects.check(request))
    }
    if (maxBytes !== undefined) this.#check(call, TOO_LARGE, () => sizeFinding(request, maxBytes))
  }

  /** If a check needs a part of the call that was not recorded, its finding is reported as possible. */
  #check(call: Call, reason: string, check: () => Finding | readonly Finding[] | undefined): void {
    try {
      for (const found of [check() ?? []].flat()) call.addFinding(found)
    } catch (error) {
      if (!isUnrecorded(error)) throw error
      const possible = { missing: error.facts, basis: this.#rules.basisOf(reason) }
      call.addFinding({ ...finding(reason, 'the call was not recorded whole'), possible })
    }
  }
}

function sizeFinding({ bytes }: CallRequest, maxBytes: number): Finding | undefined {
  if (bytes <= maxBytes) return undefined
  return finding(TOO_LARGE, `the request has ${bytes} bytes, more than ${maxBytes}`)
}

/** True for a whole response. An MCP session's own stream may stay open for the whole session, so it is not timed. */
function endsTimer(body: Uint8Array | object, { kind }: CallRequest): boolean {
  return body instanceof Uint8Array || kind === 'protocol'
}
