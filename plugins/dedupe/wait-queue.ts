// Duplicates that wait for the first call to end. Per process and key one of them polls the store; the others share its
// result.
import type { Call } from '@svc/core'
import type { DedupeClaim, DedupeClaimResult } from '@svc/core/store'

/** Milliseconds between two polls, at first and at most. */
const MIN_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

const inFlight: DedupeClaimResult = { state: 'in_flight' }

interface ClaimSource {
  claim(claim: DedupeClaim): Promise<DedupeClaimResult>
  release(claim: DedupeClaim): Promise<void>
}

export class WaitQueue {
  #claims: ClaimSource
  #polling = new Map<string, Promise<DedupeClaimResult>>()
  #pausing = new Map<string, () => void>()

  constructor(claims: ClaimSource) {
    this.#claims = claims
  }

  /**
   * The state of the key when the call under it has ended; one waiter may get the claim. `in_flight` means that the
   * deadline came first.
   */
  async wait(claim: DedupeClaim, deadline: WaitDeadline): Promise<DedupeClaimResult> {
    const queue = queueOf(claim)
    while (!deadline.isOver) {
      const polling = this.#polling.get(queue)
      if (polling === undefined) return this.#lead(queue, claim, deadline)
      const result = await Promise.race([polling, deadline.ended])
      if (result === undefined) break
      // A claim belongs to the waiter that polled; a waiter past its deadline gets no result.
      if (result.state !== 'claimed' && result.state !== 'in_flight') return result
    }
    return inFlight
  }

  /** The call of this claim has ended in this process: the queue need not wait for its next poll. */
  wake(claim: DedupeClaim): void {
    this.#pausing.get(queueOf(claim))?.()
  }

  async #lead(queue: string, claim: DedupeClaim, deadline: WaitDeadline): Promise<DedupeClaimResult> {
    const polling = this.#poll(queue, claim, deadline)
    this.#polling.set(queue, polling)
    try {
      return await polling
    } finally {
      this.#polling.delete(queue)
    }
  }

  async #poll(queue: string, claim: DedupeClaim, deadline: WaitDeadline): Promise<DedupeClaimResult> {
    for (let pause = MIN_PAUSE_MS; ; pause = Math.min(MAX_PAUSE_MS, pause * 1.5)) {
      await this.#pause(queue, pause, deadline)
      if (deadline.isOver) return inFlight
      const result = await this.#claims.claim(claim)
      if (result.state === 'in_flight') continue
      if (result.state !== 'claimed' || !deadline.isOver) return result
      await this.#claims.release(claim)
      return inFlight
    }
  }

  async #pause(queue: string, ms: number, deadline: WaitDeadline): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const pause = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
      this.#pausing.set(queue, resolve)
    })
    await Promise.race([pause, deadline.ended])
    clearTimeout(timer)
    this.#pausing.delete(queue)
  }
}

function queueOf({ key, fingerprint }: DedupeClaim): string {
  return `${key} ${fingerprint}`
}

export class WaitDeadline implements Disposable {
  /** Resolves when the wait is over. */
  readonly ended: Promise<void>
  #isOver = false
  #cleanups: (() => void)[] = []

  constructor(call: Call, ms: number) {
    let resolveEnded = (): void => undefined
    this.ended = new Promise((resolve) => {
      resolveEnded = resolve
    })
    const end = (): void => {
      this.#isOver = true
      resolveEnded()
    }
    const timer = setTimeout(end, ms)
    call.abortState.addEventListener('abort', end)
    this.#cleanups.push(
      () => clearTimeout(timer),
      () => call.abortState.removeEventListener('abort', end),
      call.onDisconnect(() => call.abort('CANCELLED', 'The caller disconnected before the response.')),
    )
    if (call.abortState.aborted) end()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  [Symbol.dispose](): void {
    for (const cleanup of this.#cleanups) cleanup()
  }
}
