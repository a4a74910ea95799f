// Reports violations of the section's rules as findings, and limits the size and duration of calls: of whole responses
// before they are sent, of streamed ones during the stream.

import {
  after,
  type Call,
  type CallRequest,
  type Completed,
  type Finding,
  isPending,
  isUnrecorded,
  type MaybePromise,
  type Next,
  type Outcome,
  type ReferenceRule,
  type RequestKind,
  type ResponseChunk,
  type ResponseStream,
  recordedCall,
  type Stage,
  sideEffects,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { type ContentRule, checkContent } from './content-rules.js'
import { CallTimer, DurationLimit, type Timer } from './duration-limit.js'
import { finding, lateFinding } from './findings.js'
import type { SideEffectRule } from './side-effects.js'
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

/** A check of a request; `reason` is that of its findings. */
interface RequestCheck {
  readonly reason: string
  readonly find: (request: CallRequest) => readonly Finding[]
}

const none: readonly Finding[] = []

export class SecurityStage implements Stage {
  /** Nothing outside the process is asked. */
  readonly effects = 'none'
  #rules: SecurityRules
  #checks: readonly RequestCheck[]
  #durationLimit: DurationLimit | undefined
  #versionRule: ReferenceRule | undefined

  constructor(rules: SecurityRules, timer: Timer) {
    this.#rules = rules
    this.#checks = requestChecks(rules)
    const { versions, maxMs } = rules
    if (maxMs !== undefined) this.#durationLimit = new DurationLimit(maxMs, timer)
    if (versions !== undefined) this.#versionRule = (reference, kind) => versions.check(reference, kind)
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const limit = this.#durationLimit
    const duration = limit === undefined ? undefined : new CallTimer(call, limit)
    const request = call.request()
    return isPending(request)
      ? request.then((known) => this.#handleRequest(call, known, duration, next))
      : this.#handleRequest(call, request, duration, next)
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

  #handleRequest(call: Call, request: CallRequest, duration: CallTimer | undefined, next: Next) {
    this.#inspect(call, request)
    // Of a recorded call not all is known that the notes have.
    if (call.isNoted && call.get(recordedCall) === undefined) this.#explain(call, request)
    const { maxBytes } = this.#rules
    const outcome = next()
    // Without limits the outcome is returned unchanged, which adds no promise.
    if (duration === undefined && maxBytes === undefined) return outcome
    const limit = (settled: Outcome): Outcome => {
      // A stream ends its timer when it has settled. That of an MCP session may stay open for the session, so it has none.
      if (settled.kind !== 'completed' || settled.body instanceof Uint8Array || request.kind === 'protocol')
        duration?.stop()
      if (settled.kind !== 'completed' || maxBytes === undefined) return settled
      return limitResponseSize(call, request.kind, settled, maxBytes)
    }
    return after(outcome, limit)
  }

  #inspect(call: Call, request: CallRequest): void {
    const { readings, kind } = request
    const { sideEffects: effects } = this.#rules
    if (this.#versionRule !== undefined) {
      call.addReferenceRule(this.#versionRule)
      for (const reading of readings) {
        const unpinned = this.#versionRule(reading, kind)
        if (unpinned === undefined) continue
        call.addFinding(unpinned)
        break
      }
    }
    if (effects !== undefined) call.set(sideEffects, effects.knowledge)
    for (const { reason, find } of this.#checks) {
      try {
        for (const found of find(request)) call.addFinding(found)
      } catch (error) {
        if (!isUnrecorded(error)) throw error
        // The check needs a part of the call that was not recorded.
        const possible = { missing: error.facts, basis: this.#rules.basisOf(reason) }
        call.addFinding({ ...finding(reason, 'the call was not recorded whole'), possible })
      }
    }
  }
}

function requestChecks({ content, sideEffects: effects, maxBytes }: SecurityRules): RequestCheck[] {
  const checks: RequestCheck[] = content.map((rule) => ({
    reason: rule.reason,
    find: (request) => checkContent(request, [rule]),
  }))
  if (effects !== undefined) checks.push({ reason: MISSING_KEY, find: (request) => effects.check(request) })
  if (maxBytes !== undefined)
    checks.push({
      reason: TOO_LARGE,
      find: ({ bytes }) =>
        bytes <= maxBytes
          ? none
          : [finding(TOO_LARGE, `the request has ${bytes} bytes, more than ${maxBytes}`)],
    })
  return checks
}

/** The response; from a denying finding on, the pipeline withholds it. */
function limitResponseSize(call: Call, kind: RequestKind, response: Completed, maxBytes: number): Completed {
  const { body } = response
  if (body instanceof Uint8Array) {
    if (body.byteLength <= maxBytes) return response
    // With a content-length over the limit, the stream need not start.
  } else if (!(Number(response.headers['content-length']) > maxBytes))
    return { ...response, body: limitStream(call, kind, body, maxBytes) }
  call.addFinding(tooLarge(maxBytes))
  return response
}

function limitStream(call: Call, kind: RequestKind, body: ResponseStream, maxBytes: number): ResponseStream {
  return {
    ...defined({ drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => limited(call, kind, body, maxBytes),
  }
}

async function* limited(
  call: Call,
  kind: RequestKind,
  body: ResponseStream,
  maxBytes: number,
): AsyncGenerator<ResponseChunk> {
  let bytes = 0
  let isReported = false
  for await (const chunk of body) {
    // An MCP session's stream of notifications has no end, so the limit applies to each chunk.
    bytes = (kind === 'protocol' ? 0 : bytes) + chunk.bytes.byteLength
    if (bytes > maxBytes && !isReported) {
      isReported = true
      call.addFinding(tooLarge(maxBytes))
    }
    yield chunk
  }
}

function tooLarge(maxBytes: number): Finding {
  return lateFinding(TOO_LARGE, `the response has more than ${maxBytes} bytes`)
}
