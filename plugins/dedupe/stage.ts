// Lets one call run under an idempotency key and gives its response to duplicates. It runs before quotas, so that a
// replay is not counted.
import {
  type Call,
  type CallRequest,
  type Denied,
  type DoctorCheck,
  denied,
  type Failed,
  failed,
  idempotency,
  isSideEffecting,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type Settlement,
  type Stage,
  type StageHealth,
  sideEffects,
} from '@svc/core'
import type { ClaimStore, DedupeClaim, DedupeClaimResult, Loss, StoreResource } from '@svc/core/store'
import { ClaimHold, type ClaimRule, claimOf, RunningClaims } from './claims.js'
import type { DedupeConfig } from './config.js'
import { decodeResponse, ResponseRecorder, replayOf, type StoredResponse } from './response-recorder.js'
import { withRpcId } from './rpc-id.js'
import { WaitDeadline } from './wait-queue.js'

export class DedupeStage implements Stage {
  readonly effects = 'stores'
  #config: DedupeConfig
  #store: StoreResource<ClaimStore>
  #rule: ClaimRule
  #meter: Meter | undefined
  #claims: RunningClaims | undefined
  /** Monotonic milliseconds. */
  #lossUntil = Number.NEGATIVE_INFINITY

  constructor(
    config: DedupeConfig,
    store: StoreResource<ClaimStore>,
    rule: ClaimRule,
    meter: Meter | undefined,
  ) {
    this.#config = config
    this.#store = store
    this.#rule = rule
    this.#meter = meter
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#store.start(signal)
    // The store's guard logs a failure; a store that does not respond refuses each claim, too.
    await this.#store.running.noticeLoss().catch(() => undefined)
    this.#claims ??= this.#attachClaims()
  }

  async stop(): Promise<void> {
    this.#claims = undefined
    await this.#store.stop()
  }

  health(): StageHealth | undefined {
    const health = this.#claims && this.#store.health()
    if (health?.state === 'down' || this.#store.clock.monotonic() >= this.#lossUntil) return health
    const effect =
      this.#config.failureMode === 'open' ? 'may run again' : 'are refused until ttlSec has passed'
    return {
      state: 'warning',
      reason: `the dedupe store has lost its keys: calls with side effects ${effect}`,
    }
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#store.doctor()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const { parsedRequest } = call
    if (call.isNoted) this.#explain(call)
    // Most calls have no key.
    if (parsedRequest?.idempotencyKey === null) return next()
    return this.#handleKeyed(call, next)
  }

  #explain(call: Call): void {
    const { duplicatePolicy, ttlSec } = this.#config
    const duplicate = duplicatePolicy === 'replay' ? 'gets the response of the first' : 'is refused'
    call.note(
      `a call with an idempotency key runs once; a duplicate within ${ttlSec} s ${duplicate}; keys are kept by ${this.#store.source}`,
    )
  }

  async #handleKeyed(call: Call, next: Next): Promise<Outcome> {
    const request = await call.request()
    if (!hasKey(request)) return next()
    const claims = this.#running()
    const claim = claimOf(call, request, this.#rule)
    let result: DedupeClaimResult
    let stored: StoredResponse | undefined
    try {
      result = await this.#claim(call, claims, claim)
      stored = this.#replayable(result)
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
    if (call.endedUnsent !== undefined && result.state === 'in_flight') return call.endedUnsent
    if (result.state === 'claimed') {
      const lost = this.#refuseIfLost(call, request, claim, result.loss)
      if (lost === undefined) return this.#run(call, claims, claim, next)
      await claims.release(claim)
      return lost
    }
    return stored === undefined ? this.#refuse(call, result) : this.#replay(call, request, stored)
  }

  /** @throws {Error} if the stored bytes are not a response */
  #replayable(result: DedupeClaimResult): StoredResponse | undefined {
    if (this.#config.duplicatePolicy === 'reject' || result.state !== 'completed') return undefined
    return result.response === null ? undefined : decodeResponse(result.response)
  }

  async #claim(call: Call, claims: RunningClaims, claim: DedupeClaim): Promise<DedupeClaimResult> {
    const { duplicatePolicy, waitSec } = this.#config
    const result = await claims.claim(claim)
    if (result.state !== 'in_flight' || duplicatePolicy === 'reject') return result
    using deadline = new WaitDeadline(call, waitSec * 1000)
    return await claims.wait(claim, deadline)
  }

  async #run(call: Call, claims: RunningClaims, claim: DedupeClaim, next: Next): Promise<Outcome> {
    const { maxResponseKb, waitSec } = this.#config
    call.set(idempotency, 'first')
    call.hold(new ClaimHold(claims, claim))
    const recorder = new ResponseRecorder(call, { maxBytes: maxResponseKb * 1024, drainMs: waitSec * 1000 })
    // Runs after the audit record is on disk: a record that could not be written makes the outcome unknown.
    call.afterSettle((settlement) => this.#end(claims, claim, recorder, settlement))
    const outcome = await next()
    if (call.sent === 'no') return outcome
    const recorded = outcome.kind === 'completed' ? recorder.record(outcome) : outcome
    return { ...recorded, headers: Object.assign({}, recorded.headers, { 'x-dedupe': 'first' }) }
  }

  async #end(
    claims: RunningClaims,
    claim: DedupeClaim,
    recorder: ResponseRecorder,
    settlement: Settlement,
  ): Promise<void> {
    // The pipeline has released the hold.
    if (settlement.sent === 'no') return
    const ending = recorder.ending(settlement)
    if (ending === 'released') await claims.release(claim)
    else if (ending === 'unknown') await claims.markUnknown(claim)
    else await claims.complete(claim, ending.response)
  }

  /** After the store has lost its keys, an earlier call with this one may have run. */
  #refuseIfLost(
    call: Call,
    request: CallRequest,
    { ttlMs }: DedupeClaim,
    loss: Loss | undefined,
  ): Failed | undefined {
    if (loss === undefined || loss.ageMs >= ttlMs) return undefined
    this.#lossUntil = this.#store.clock.monotonic() + ttlMs - loss.ageMs
    if (this.#config.failureMode === 'open' || !isSideEffecting(request, call.get(sideEffects)))
      return undefined
    const at = new Date(loss.at).toISOString()
    return failed(
      'STORE_UNAVAILABLE',
      `The store of idempotency keys lost its content at ${at}: whether this call has run is not known, so it was not sent.`,
      { headers: { 'retry-after': String(Math.ceil((ttlMs - loss.ageMs) / 1000)) } },
    )
  }

  #replay(call: Call, { rpcId }: CallRequest, stored: StoredResponse): Outcome {
    call.set(idempotency, 'replay')
    this.#meter?.count('svc_dedupe_replays_total')
    if (rpcId === undefined) return replayOf(stored)
    return replayOf(stored, Buffer.from(withRpcId(Buffer.from(stored.body).toString(), rpcId)))
  }

  #refuse(call: Call, { state }: DedupeClaimResult): Denied {
    this.#meter?.count('svc_dedupe_refusals_total')
    if (state === 'reused') {
      return denied(
        'IDEMPOTENCY_KEY_REUSED',
        'The idempotency key was used for another request: with other arguments, for another version, or over the other protocol.',
      )
    }
    if (state === 'full') {
      return denied(
        'RATE_LIMITED',
        'The tenant has as many idempotency keys as it may have (`dedupe.maxKeysPerTenant`); the call was not sent.',
        { headers: { 'retry-after': '60' } },
      )
    }
    call.set(idempotency, 'duplicate')
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
      this.#config.duplicatePolicy === 'reject'
        ? 'A call with this idempotency key has run already.'
        : 'A call with this idempotency key has run already; its response was too large to be kept.',
    )
  }

  #running(): RunningClaims {
    if (this.#claims === undefined) throw new Error('the dedupe stage has not started')
    return this.#claims
  }

  #attachClaims(): RunningClaims {
    const { leaseMs } = this.#rule
    return this.#store.attach(`claims ${leaseMs} ${this.#config.timeoutMs}`, () => {
      const claims = new RunningClaims(this.#store.running, leaseMs)
      return { value: claims, close: () => claims.close() }
    })
  }
}

function hasKey({ kind, idempotencyKey }: CallRequest): boolean {
  return kind === 'tool' && idempotencyKey !== null
}
