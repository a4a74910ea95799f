// Lets one call run under an idempotency key and answers the others from what it was answered. Stands before quotas,
// so that a replay costs none.
import {
  type Call,
  type CallRequest,
  type DedupeClaim,
  type DedupeStanding,
  type Denied,
  dedupe,
  denied,
  failed,
  type Lease,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type Settlement,
  type Stage,
} from '@svc/core'
import { AnswerKeeper, isWatchable } from './answer-keeper.js'
import { type ClaimRule, claimOf } from './claim.js'
import { ClaimHold } from './claim-hold.js'
import type { Claims } from './claims.js'
import type { DedupeConfig } from './config.js'
import { decodeAnswer, type KeptAnswer, replayOf } from './kept-answer.js'
import { Patience } from './patience.js'
import { withRpcId } from './rpc-id.js'

/** A store that is known but not yet open. */
export interface ClaimsSource {
  /** As `explain` tells it. */
  readonly name: string
  /** `signal` fires when start-up is given up. */
  open(signal: AbortSignal): Promise<Lease<Claims>>
}

export interface DedupeStageParts {
  readonly source: ClaimsSource
  readonly rule: ClaimRule
  readonly policy: DedupeConfig['duplicatePolicy']
  /** Milliseconds that a duplicate waits at most. */
  readonly waitMs: number
  readonly maxAnswerBytes: number
  readonly meter?: Meter | undefined
}

export class DedupeStage implements Stage {
  #parts: DedupeStageParts
  #lease: Lease<Claims> | undefined

  constructor(parts: DedupeStageParts) {
    this.#parts = parts
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#lease ??= await this.#parts.source.open(signal)
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  ready(): string | undefined {
    return this.#lease?.value.ready()
  }

  warning(): string | undefined {
    return this.#lease?.value.warning()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const { parsedRequest } = call
    return parsedRequest !== undefined && !hasKey(parsedRequest) ? next() : this.#handleKeyed(call, next)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { policy, source, rule } = this.#parts
    const { kind } = await call.request()
    if (kind === 'tool') {
      const duplicate = policy === 'replay' ? 'answered as the first was' : 'refused'
      say(
        `a call with an idempotency key runs once; a duplicate within ${rule.ttlMs / 1000} s is ${duplicate}`,
      )
      say(`keys are kept by ${source.name}; an explanation claims none`)
    } else say('only calls of tools are looked at')
    return next()
  }

  async #handleKeyed(call: Call, next: Next): Promise<Outcome> {
    const request = await call.request()
    if (!hasKey(request)) return next()
    const claims = this.#claims()
    const claim = claimOf(call, request, this.#parts.rule)
    let standing: DedupeStanding
    let kept: KeptAnswer | undefined
    try {
      standing = await this.#stand(call, claims, claim)
      kept = this.#toReplay(standing)
    } catch (cause) {
      return failed(
        'STORE_UNAVAILABLE',
        'The idempotency key cannot be looked up, so the call was not sent.',
        {
          cause,
          headers: { 'retry-after': '1' },
        },
      )
    }
    if (standing.state === 'claimed') return this.#run(call, claim, next)
    return kept === undefined ? this.#refuse(call, standing) : this.#replay(call, request, kept)
  }

  /** Throws for an answer that is not ours. */
  #toReplay(standing: DedupeStanding): KeptAnswer | undefined {
    if (this.#parts.policy === 'reject' || standing.state !== 'answered') return undefined
    return standing.answer === null ? undefined : decodeAnswer(standing.answer)
  }

  async #stand(call: Call, claims: Claims, claim: DedupeClaim): Promise<DedupeStanding> {
    const { policy, waitMs } = this.#parts
    const standing = await claims.claim(claim)
    if (standing.state !== 'in_flight' || policy === 'reject') return standing
    using patience = new Patience(call, waitMs)
    return await claims.wait(claim, patience)
  }

  async #run(call: Call, claim: DedupeClaim, next: Next): Promise<Outcome> {
    const claims = this.#claims()
    const { maxAnswerBytes, waitMs } = this.#parts
    call.set(dedupe, 'first')
    call.hold(new ClaimHold(claims, claim))
    const keeper = new AnswerKeeper(call, { maxBytes: maxAnswerBytes, drainMs: waitMs })
    // When the record is on disk: one that could not be written makes the outcome unknown.
    call.afterSettle((settlement) => this.#end(claims, claim, keeper, settlement))
    const outcome = await next()
    if (outcome.sent === 'no') return outcome
    const watched = isWatchable(outcome) ? keeper.watch(outcome) : outcome
    return { ...watched, headers: Object.assign({}, watched.headers, { 'x-dedupe': 'first' }) }
  }

  async #end(
    claims: Claims,
    claim: DedupeClaim,
    keeper: AnswerKeeper,
    settlement: Settlement,
  ): Promise<void> {
    // The pipeline has released the hold.
    if (settlement.sent === 'no') return
    const ending = keeper.ending(settlement)
    if (ending === 'free') await claims.release(claim)
    else if (ending === 'unknown') await claims.lose(claim)
    else await claims.complete(claim, ending.answer)
  }

  #replay(call: Call, { rpcId }: CallRequest, kept: KeptAnswer): Outcome {
    call.set(dedupe, 'replay')
    this.#parts.meter?.count('svc_dedupe_replays_total')
    if (rpcId === undefined) return replayOf(kept)
    return replayOf(kept, Buffer.from(withRpcId(Buffer.from(kept.body).toString(), rpcId)))
  }

  #refuse(call: Call, { state }: DedupeStanding): Denied {
    this.#parts.meter?.count('svc_dedupe_refusals_total')
    if (state === 'reused') {
      return denied(
        'IDEMPOTENCY_KEY_REUSED',
        'The idempotency key was used for another request: with other arguments, for another version, or over the other protocol.',
      )
    }
    call.set(dedupe, 'duplicate')
    if (state === 'unknown') {
      return denied(
        'IDEMPOTENT_OUTCOME_UNKNOWN',
        'An earlier call with this idempotency key was sent and what came of it is not known: it may have run. Look before you repeat it under another key.',
      )
    }
    if (state === 'in_flight') {
      return denied('IDEMPOTENT_DUPLICATE', 'A call with this idempotency key is in flight.', {
        headers: { 'retry-after': '1' },
      })
    }
    return denied(
      'IDEMPOTENT_DUPLICATE',
      this.#parts.policy === 'reject'
        ? 'A call with this idempotency key has run already.'
        : 'A call with this idempotency key has run already; its answer was too large to be kept.',
    )
  }

  #claims(): Claims {
    if (this.#lease === undefined) throw new Error('the dedupe stage has not started')
    return this.#lease.value
  }
}

function hasKey({ kind, idempotencyKey }: CallRequest): boolean {
  return kind === 'tool' && idempotencyKey !== null
}
