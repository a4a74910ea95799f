// Watches the file of a policy by polling, which sees what notifications of the file system miss: a replaced symbolic
// link of a Kubernetes volume, a network share, a file that was removed for a moment.
import { readFileSync, statSync } from 'node:fs'
import type { Clock, Logger } from '@svc/core'
import { reasonOf } from '@svc/core/json'
import { isPolicyText } from '@svc/core/policy'

/** Time between two looks at the file, in milliseconds. */
const WATCH_MS = 500
/** A content is loaded when it has been the same for this time. */
const SETTLED_MS = 500
/** One that cannot be parsed may be half written; it is loaded, and refused, after this time. */
const BROKEN_MS = 5_000

export interface PolicyWatchOptions {
  readonly file: string
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Logger
  /** The text of the policy in force. */
  current(): string | undefined
  /** Loads the text. Rejects if it is refused. */
  load(text: string): Promise<unknown>
}

/** The cause in the records of reloads of a watched file. */
export const causeOfWatch = { by: 'a change of the file' }

/** Watches until the timer is cleared. */
export function watchPolicy(options: PolicyWatchOptions): NodeJS.Timeout {
  const watch = new PolicyWatch(options)
  return setInterval(() => void watch.look(), WATCH_MS).unref()
}

export class PolicyWatch {
  #options: PolicyWatchOptions
  #state = ''
  #next: { readonly text: string; readonly since: number } | undefined
  #refused: string | undefined
  #isUnreadable = false
  #looking = false

  constructor(options: PolicyWatchOptions) {
    this.#options = options
  }

  /** Looks at the file, and loads a new content that has settled. Never rejects. */
  async look(): Promise<void> {
    // A policy may take longer to load than the time between two looks.
    if (this.#looking) return
    this.#looking = true
    try {
      const text = this.#settled()
      if (text === undefined) return
      this.#refused = text
      await this.#options.load(text)
      this.#refused = undefined
    } catch {
      // The refusal is reported where it is decided, and is not tried again.
    } finally {
      this.#looking = false
    }
  }

  /** The content, if it is new and complete. */
  #settled(): string | undefined {
    const isPending = this.#next !== undefined
    const text = this.#read(isPending)
    const { clock, current } = this.#options
    if (text === undefined || text === current() || text === this.#refused) {
      // An unchanged file is not read, unless what it had is pending.
      if (text !== undefined || isPending) this.#next = undefined
      return undefined
    }
    const now = clock.monotonic()
    if (text !== this.#next?.text) {
      this.#next = { text, since: now }
      return undefined
    }
    if (now - this.#next.since < (isPolicyText(text) ? SETTLED_MS : BROKEN_MS)) return undefined
    this.#next = undefined
    return text
  }

  /** The content, if it may have changed or `again` is true. */
  #read(again: boolean): string | undefined {
    const { file, logger } = this.#options
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true })
      this.#isUnreadable = false
      // Before the content, so that a change in between is seen at the next look.
      const state = [dev, ino, size, mtimeNs, ctimeNs].join()
      if (state === this.#state && !again) return undefined
      const text = readFileSync(file, 'utf8')
      this.#state = state
      return text
    } catch (error) {
      this.#state = ''
      if (!this.#isUnreadable)
        logger.warn({ file, reason: reasonOf(error) }, 'the policy file cannot be read; the policy stays')
      this.#isUnreadable = true
      return undefined
    }
  }
}
