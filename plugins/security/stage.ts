// Finds versions that are not pinned, hosts and paths that must not be touched, side effects without an idempotency
// key, payloads that are too large and calls that take too long.
import {
  type Call,
  type CallRequest,
  denied,
  type Next,
  type Outcome,
  type ReferenceRule,
  type Stage,
  sideEffects,
} from '@svc/core'
import { limitAnswer } from './answer-size.js'
import { judgeContent, type StringRule } from './content/rules.js'
import { DurationWatch } from './duration-limit.js'
import { finding } from './findings.js'
import type { SideEffectRule } from './side-effects.js'
import type { Timer } from './timer.js'
import type { AllowedVersions } from './versions.js'

export interface SecurityRules {
  readonly versions: AllowedVersions | undefined
  /** What arguments may hold. */
  readonly content: readonly StringRule[]
  readonly sideEffects: SideEffectRule | undefined
  /** The most that a request or an answer may have. */
  readonly maxBytes: number | undefined
  readonly maxMs: number | undefined
}

export class SecurityStage implements Stage {
  #rules: SecurityRules
  #timer: Timer
  #versionRule: ReferenceRule | undefined

  constructor(rules: SecurityRules, timer: Timer) {
    this.#rules = rules
    this.#timer = timer
    const { versions } = rules
    if (versions !== undefined) this.#versionRule = (reference, kind) => versions.judge(reference, kind)
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    const { maxMs, maxBytes } = this.#rules
    const watch = maxMs === undefined ? undefined : new DurationWatch(call, this.#timer, maxMs)
    const request = await call.request()
    this.#inspect(call, request)
    const outcome = await next()
    if (watch !== undefined && (outcome.kind !== 'completed' || endsHere(outcome.body, request))) watch.stop()
    if (outcome.kind !== 'completed') return outcome
    const late = watch?.denial
    if (late !== undefined)
      return denied(late.code, late.message, { sent: outcome.sent, denial: late.denial })
    return maxBytes === undefined ? outcome : limitAnswer(call, request.kind, outcome, maxBytes)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { versions, content, sideEffects: effects, maxBytes, maxMs } = this.#rules
    const request = await call.request()
    const before = call.findings.length
    this.#inspect(call, request)
    const found = call.findings.slice(before)
    for (const { reason, detail } of found) say(`${reason}: ${detail}`)
    if (found.length === 0) say('nothing is found before the call is sent')
    const allowed = request.kind === 'protocol' ? undefined : versions?.allowedFor(request.reference)
    say(
      allowed === undefined
        ? 'allow_versions does not speak of this'
        : `allow_versions: ${allowed.join(', ')}`,
    )
    for (const { list, rule } of content) {
      say(`${list}: ${rule.sources.length === 0 ? 'allows nothing' : rule.sources.join(', ')}`)
    }
    if (effects !== undefined) say(effects.inWords(request))
    if (maxBytes !== undefined) {
      say(`max_payload_kb: the request has ${request.bytes} bytes, it and its answer may have ${maxBytes}`)
    }
    if (maxMs !== undefined) say(`max_duration_ms: the call may take ${maxMs} ms`)
    return next()
  }

  #inspect(call: Call, request: CallRequest): void {
    const { reference, kind, bytes } = request
    const { maxBytes, content, sideEffects: effects } = this.#rules
    if (this.#versionRule !== undefined) {
      call.addReferenceRule(this.#versionRule)
      const unpinned = this.#versionRule(reference, kind)
      if (unpinned !== undefined) call.addFinding(unpinned)
    }
    for (const found of judgeContent(request, content)) call.addFinding(found)
    if (effects !== undefined) {
      call.set(sideEffects, effects.knowledge)
      const missing = effects.judge(request)
      if (missing !== undefined) call.addFinding(missing)
    }
    if (maxBytes !== undefined && bytes > maxBytes) {
      call.addFinding(finding('payload_too_large', `the request has ${bytes} bytes, more than ${maxBytes}`))
    }
  }
}

/** A whole answer has all come; a session's own stream may stay open for as long as the session. */
function endsHere(body: Uint8Array | object, { kind }: CallRequest): boolean {
  return body instanceof Uint8Array || kind === 'protocol'
}
