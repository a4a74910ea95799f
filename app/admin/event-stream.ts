// Writes a response of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
import type { ServerResponse } from 'node:http'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import { fixedHeaders } from './fixed-headers.js'
import type { AdminEventStream, EventSink } from './operation.js'

/** Milliseconds without an event after which a comment keeps the connection open. */
const KEEP_ALIVE_MS = 15_000
/** Unread bytes above which a client is congested. */
const MAX_UNREAD = 262_144
/** Unread bytes above which a client is disconnected. */
const CUT_OFF = 4 * MAX_UNREAD

/** The responses of events of a listener. */
export class EventStreams {
  #open = new Set<AbortController>()

  /** Resolves when the response has ended. Rejects with what `run` rejects with, after the response is closed. */
  async write(response: ServerResponse, { run }: AdminEventStream): Promise<void> {
    const ended = new AbortController()
    this.#open.add(ended)
    response.once('close', () => ended.abort())
    response.writeHead(200, {
      ...fixedHeaders,
      ...eventStreamHeaders,
      'cache-control': 'no-store, no-transform',
    })
    response.write(':\n\n')
    const timer = setInterval(() => writeTo(response, ':\n\n'), KEEP_ALIVE_MS)
    try {
      await run(sinkOf(response, ended.signal))
    } finally {
      clearInterval(timer)
      this.#open.delete(ended)
      response.end()
    }
  }

  close(): void {
    for (const one of this.#open) one.abort()
  }
}

function writeTo(response: ServerResponse, text: string): void {
  if (response.writableLength > CUT_OFF) response.destroy()
  else response.write(text)
}

function sinkOf(response: ServerResponse, signal: AbortSignal): EventSink {
  return {
    signal,
    get isCongested() {
      return response.writableLength > MAX_UNREAD
    },
    send(event, data, id) {
      if (signal.aborted) return
      const head = id === undefined ? '' : `id: ${id}\n`
      writeTo(response, `${head}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    },
  }
}
