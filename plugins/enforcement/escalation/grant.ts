// An approval as a hold: spent directly before its call is sent, given back when it was not.
import { type Call, type Denied, denied, type Hold, type Identity } from '@svc/core'
import type { Case } from './case.js'
import type { Cases } from './cases.js'
import { standingOf } from './rules.js'
import type { Steps } from './steps.js'

export interface GrantParts {
  readonly cases: Cases
  readonly steps: Steps
  readonly value: Case
  readonly caller: Identity
  readonly refusal: RefusalParts
}

/** What a refusal of the call says beside its escalation. */
export interface RefusalParts {
  /** What the call escalates for. */
  readonly denial: Pick<Denied, 'denial'>
  /** Hash of the call's idempotency key. */
  readonly key: string | null
}

export class Grant implements Hold {
  #parts: GrantParts
  /** No other call has this trace and span. */
  #by: string
  #isTaken = false

  constructor(parts: GrantParts, { trace }: Call) {
    this.#parts = parts
    this.#by = `${trace.traceId}-${trace.spanId}`
  }

  async commit(): Promise<Denied | undefined> {
    const { cases, steps, value, caller, refusal } = this.#parts
    const by = this.#by
    // From here on the store may have it, whatever comes back.
    this.#isTaken = true
    const taken = await cases.change(value.id, (now) =>
      standingOf(now, cases.now, null) === 'usable' ? { ...now, use: { by, key: refusal.key } } : now,
    )
    if (taken?.use?.by !== by) {
      this.#isTaken = false
      return spent(taken ?? value, refusal)
    }
    try {
      await steps.used(taken, caller)
    } catch (fault) {
      await this.#giveBack()
      throw fault
    }
    return undefined
  }

  async release(): Promise<void> {
    const { steps, value, caller } = this.#parts
    if (this.#isTaken && (await this.#giveBack())) await steps.givenBack(value, caller)
  }

  async #giveBack(): Promise<boolean> {
    this.#isTaken = false
    let isMine = false
    await this.#parts.cases.change(this.#parts.value.id, (now) => {
      isMine = now.use?.by === this.#by
      if (!isMine) return now
      const { use: _, ...unused } = now
      return unused
    })
    return isMine
  }
}

/** For a call that repeats one that was let through: its answer is kept, or it is not sent. */
export function refusesToSend(value: Case, refusal: RefusalParts): Hold {
  return { commit: () => spent(value, refusal), release: () => undefined }
}

/** An idempotency key stays with the approval that it has used. */
export function spent({ id, status, use }: Case, { denial, key }: RefusalParts): Denied {
  const isByKey = key !== null && use?.key === key
  const again = isByKey ? 'Under another idempotency key' : 'Without x-escalation-id'
  return denied(
    'ESCALATION_REJECTED',
    `The approval was for one call, and has been used or has lapsed. ${again} the call is put to people again.`,
    { ...denial, escalation: { id, status } },
  )
}
