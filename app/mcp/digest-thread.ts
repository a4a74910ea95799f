// The thread that hashes large results: the canonical form of one would hold the event loop for longer than reading it. One
// for the process, started for the first of them, and ended when there has been none for a while.
import { startWorker, Thread } from '@svc/core/thread'
import type { DigestMethods } from './digest-worker.js'

const module = new URL('./digest-worker.js', import.meta.url)
const idleMs = 60_000

let thread: Thread<DigestMethods> | undefined
let running = 0
let idle: NodeJS.Timeout | undefined

/** The digest of the `result` in the JSON of a response. Rejects if the thread ends. */
export async function digestInThread(text: string): Promise<string> {
  clearTimeout(idle)
  thread ??= start()
  running++
  try {
    return await thread.call('digest', text)
  } finally {
    if (--running === 0) idle = setTimeout(end, idleMs).unref()
  }
}

function start(): Thread<DigestMethods> {
  const started = new Thread<DigestMethods>(startWorker(module, {}), {}, () => {
    if (thread === started) thread = undefined
  })
  return started
}

function end(): void {
  void thread?.close()
  thread = undefined
}
