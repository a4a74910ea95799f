// Reads the events of the admin API as a program does.
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { eventDisagreement } from '../app/admin/document.js'
import { adminToken } from '../app/admin/rig.js'

interface ReceivedEvent {
  readonly event: string
  readonly id: string | undefined
  readonly data: Record<string, unknown>
}

export interface EventReader extends AsyncDisposable {
  /** The next event of this name; those before it are dropped. */
  next(event: string): Promise<ReceivedEvent>
}

export async function readEvents(
  origin: string,
  query = '',
  headers: Record<string, string> = { authorization: `Bearer ${adminToken}` },
): Promise<EventReader> {
  const abort = new AbortController()
  const response = await fetch(`${origin}/api/events${query}`, { headers, signal: abort.signal })
  if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`)
  const events = response.body
    .pipeThrough(new TextDecoderStream() as never)
    .pipeThrough(new EventSourceParserStream() as never) as unknown as ReadableStream<{
    event?: string
    id?: string
    data: string
  }>
  const reader = events.getReader()
  return {
    async next(wanted) {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) throw new Error(`the events ended before ${wanted}`)
        const data = JSON.parse(value.data)
        const reason = eventDisagreement(value.event ?? '', data)
        if (reason !== undefined) throw new Error(`not as documented: ${reason}`)
        if (value.event === wanted) return { event: wanted, id: value.id, data }
      }
    },
    async [Symbol.asyncDispose]() {
      await reader.cancel().catch(() => undefined)
      abort.abort()
    },
  }
}
