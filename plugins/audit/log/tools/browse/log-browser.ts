// The thread that reads the log for those who look at it: one for the process, started when somebody does, ended when nobody
// has for a minute, or when it takes too long.

import { startWorker, Thread } from '@svc/core/thread'
import { AuditError } from '../../format/errors.js'
import type { BrowseMethods } from './browse-worker.js'

const IDLE_MS = 60_000
const TIMEOUT_MS = 60_000
const MAX_WAITING = 16
const MEMORY_MB = 1_024

type Results = { [Name in keyof BrowseMethods]: Awaited<ReturnType<BrowseMethods[Name]>> }

class LogBrowser {
  #thread: Thread<BrowseMethods> | undefined
  #waiting = 0
  #idle: NodeJS.Timeout | undefined

  /** @throws {AuditError} of the method; `read_failed` if the log is read by too many, or for too long. */
  async call<Name extends keyof BrowseMethods>(
    name: Name,
    ...args: Parameters<BrowseMethods[Name]>
  ): Promise<Results[Name]> {
    if (this.#waiting >= MAX_WAITING) throw new AuditError('read_failed', 'too many read the log: try again')
    clearTimeout(this.#idle)
    this.#waiting++
    this.#thread ??= this.#start()
    const thread = this.#thread
    const timer = setTimeout(() => void this.#end(thread), TIMEOUT_MS).unref()
    try {
      return (await thread.call(name, ...args)) as Results[Name]
    } finally {
      clearTimeout(timer)
      if (--this.#waiting === 0) this.#idle = setTimeout(() => void this.#end(thread), IDLE_MS).unref()
    }
  }

  #start(): Thread<BrowseMethods> {
    const worker = startWorker(new URL('./browse-worker.js', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    })
    const thread = new Thread<BrowseMethods>(worker, {}, () => {
      if (this.#thread === thread) this.#thread = undefined
    })
    return thread
  }

  #end(thread: Thread<BrowseMethods>): Promise<void> {
    if (this.#thread === thread) this.#thread = undefined
    return thread.close()
  }
}

export const logBrowser = new LogBrowser()
