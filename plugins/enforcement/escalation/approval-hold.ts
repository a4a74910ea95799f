// An approval as a hold: used directly before its call is sent, returned when the call was not sent.
import { type Call, type Denial, type Denied, denied, type Hold, type Identity } from '@svc/core'
import { approvalStateOf } from './approval-state.js'
import type { EscalationEvents } from './events.js'
import type { EscalationRepository } from './repository.js'
import type { StoredEscalation } from './stored-escalation.js'

interface ApprovalHoldOptions {
  readonly repository: EscalationRepository
  readonly events: EscalationEvents
  readonly value: StoredEscalation
  readonly caller: Identity
  readonly refusal: RefusalReason
}

/** The contents of a refusal of the call besides its escalation. */
interface RefusalReason {
  /** The reasons for which the call escalates. */
  readonly denial: Denial
  /** Hash of the call's idempotency key. */
  readonly key: string | null
}

export class ApprovalHold implements Hold {
  #options: ApprovalHoldOptions
  /** Unique, because no other call has this trace and span. */
  #by: string
  #isUsed = false

  constructor(options: ApprovalHoldOptions, { trace }: Call) {
    this.#options = options
    this.#by = `${trace.traceId}-${trace.spanId}`
  }

  async commit(): Promise<Denied | undefined> {
    const { repository, events, value, caller, refusal } = this.#options
    const by = this.#by
    // From here on the store may have recorded the use, even if the change fails.
    this.#isUsed = true
    const used = await repository.change(value, (now) =>
      approvalStateOf(now, repository.now, null) === 'usable'
        ? { ...now, use: { by, key: refusal.key, at: repository.now } }
        : now,
    )
    if (used?.use?.by !== by) {
      this.#isUsed = false
      return denialOfUsed(used ?? value, refusal)
    }
    try {
      await events.used(used, caller)
    } catch (error) {
      await this.#return()
      throw error
    }
    return undefined
  }

  async release(): Promise<void> {
    const { events, value, caller } = this.#options
    if (this.#isUsed && (await this.#return())) await events.returned(value, caller)
  }

  async #return(): Promise<boolean> {
    this.#isUsed = false
    let isOwn = false
    await this.#options.repository.change(this.#options.value, (now) => {
      isOwn = now.use?.by === this.#by
      if (!isOwn) return now
      const { use: _, ...unused } = now
      return unused
    })
    return isOwn
  }
}

/** The hold of a call that repeats an approved one: dedupe replays its response, or the call is not sent. */
export function denyingHold(value: StoredEscalation, refusal: RefusalReason): Hold {
  return { commit: () => denialOfUsed(value, refusal), release: () => undefined }
}

/** An idempotency key stays tied to the approval that it has used. */
export function denialOfUsed({ id, status, use }: StoredEscalation, { denial, key }: RefusalReason): Denied {
  const isByKey = key !== null && use?.key === key
  const again = isByKey ? 'under another idempotency key' : 'without x-escalation-id'
  return denied(
    'ESCALATION_REJECTED',
    `The approval was for one call, and has been used or has lapsed: this call was not sent. Repeated ${again}, it waits for another approval.`,
    { denial, escalation: { id, status } },
  )
}
