// Sends the events to one client. Its rights are checked again each second.
import { isRefusal, personKeyOf, Refusal, type Reviewer } from '@svc/core'
import type { Escalation } from '@svc/plugin-enforcement'
import type { EventSink, OperationRequest } from '../../admin/operation.js'
import { escalationsOf } from '../../escalations/operations.js'
import type { AdminAccess } from '../../policy/admin-authorizer.js'
import { maySee } from '../calls/find-calls.js'
import { gatewayStatus, maxCounted } from '../status-operation.js'
import { CallFeed } from './call-feed.js'
import type { CallsEvent, EndEvent, EscalationsEvent, SealedEvent } from './event-schemas.js'

const EVERY_MS = 1_000
/** Without a decision for so long, calls are counted and not sent. */
const BELIEVED_MS = 3_000
const MAX_CLIENTS = 64
/** Clients of one person, or of the admin token, so that one person does not keep others out. */
const MAX_OF_ONE = 16
/** Milliseconds for which all clients share what one has read of the escalations. */
const SHARED_MS = 500

interface Wanted {
  /** Absent if the client gets no calls. */
  readonly dir: string | undefined
  /** Calls after it are sent first; empty for none. */
  readonly id: string
}

/** Clients are counted by who they are: one person may have tokens of several clients, scopes and roles. */
const clients = new Map<string, number>()

/** @throws {Refusal} `RATE_LIMITED` if the client, or all clients together, watch too many times already */
export function checkPlaces({ client }: Pick<OperationRequest, 'client'>): void {
  const mine = clients.get(keyOf(client)) ?? 0
  const all = [...clients.values()].reduce((sum, one) => sum + one, 0)
  if (mine < MAX_OF_ONE && all < MAX_CLIENTS) return
  const message = mine >= MAX_OF_ONE ? `You watch ${mine} times already.` : `${all} clients watch already.`
  throw new Refusal('RATE_LIMITED', message)
}

/** Resolves when the client has left, or may no longer watch. */
export async function watch(request: OperationRequest, { dir, id }: Wanted, sink: EventSink): Promise<void> {
  const who = keyOf(request.client)
  const watched = new Watched(sink, request.access)
  let hasPlace = false
  let stop: (() => void) | undefined
  try {
    // Others may have taken the last place while the request was recorded.
    await request.again(async (now) => {
      checkPlaces(now)
      clients.set(who, (clients.get(who) ?? 0) + 1)
      hasPlace = true
    })
    // First, so that a call after the client's first event is not missed.
    if (dir !== undefined) stop = await watched.follow(CallFeed.of(dir), id)
    await watched.look(request)
    while (await passed(EVERY_MS, sink.signal)) await request.again((now) => watched.look(now))
  } catch (error) {
    if (!isRefusal(error)) throw error
    sink.send('end', endOf(error))
  } finally {
    stop?.()
    const left = (clients.get(who) ?? 0) - (hasPlace ? 1 : 0)
    if (left <= 0) clients.delete(who)
    else clients.set(who, left)
  }
}

class Watched {
  #sink: EventSink
  #access: AdminAccess
  /** When that was decided; monotonic milliseconds. */
  #decidedAt = performance.now()
  #status = ''
  #escalations: ReadonlyMap<string, string> | undefined
  #failure: unknown
  #skipped = 0
  #feed: CallFeed | undefined
  #sealed = ''

  constructor(sink: EventSink, access: AdminAccess) {
    this.#sink = sink
    this.#access = access
  }

  async follow(feed: CallFeed, id: string): Promise<() => void> {
    let isBackfill = id !== ''
    this.#feed = feed
    return feed.watch(
      id,
      (batch) => {
        const rows = batch.rows.filter((row) => maySee(this.#access, row))
        // Only some clients may see the number of others' calls.
        const count = this.#access.readsAll ? batch.seen : Math.min(rows.length * batch.oneIn, batch.seen)
        const isOld = performance.now() - this.#decidedAt > BELIEVED_MS
        // A client that does not keep up, or whose access was decided too long ago, gets a sample of the calls, and their number.
        if (this.#sink.isCongested || isOld) {
          this.#skipped += count
          return
        }
        const seen = count + this.#skipped
        const oneIn = this.#skipped === 0 ? batch.oneIn : Math.ceil(seen / Math.max(1, rows.length))
        this.#skipped = 0
        const event: CallsEvent = { rows, seen, one_in: oneIn, is_backfill: isBackfill }
        isBackfill = false
        if (rows.length > 0 || event.is_backfill) this.#sink.send('calls', event, batch.id)
      },
      (error) => {
        this.#failure = error
      },
    )
  }

  /** Sends what has changed since it was last called. */
  async look(request: OperationRequest): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    this.#access = request.access
    this.#decidedAt = performance.now()
    const escalations = escalationsOf(request)
    const waiting = await escalations?.waiting(maxCounted, SHARED_MS)
    const status = await gatewayStatus(request, waiting)
    const { at: _, ...state } = status
    if (JSON.stringify(state) !== this.#status) this.#sink.send('status', status)
    this.#status = JSON.stringify(state)
    // Decided ones are watched for their use.
    const latest = await escalations?.latest(SHARED_MS)
    this.#lookAtEscalations([...(waiting?.found ?? []), ...(latest ?? [])])
    if (this.#feed !== undefined) await this.#lookAtSeals(this.#feed)
  }

  async #lookAtSeals(feed: CallFeed): Promise<void> {
    const event: SealedEvent = { ends: await feed.sealed() }
    const text = JSON.stringify(event)
    if (text !== this.#sealed) this.#sink.send('sealed', event)
    this.#sealed = text
  }

  #lookAtEscalations(escalations: readonly Escalation[]): void {
    const now = new Map(
      escalations.map((one) => [
        one.id,
        `${one.status} ${one.votes.length} ${one.isUsed} ${one.expiresAt} ${one.secondSetId ?? ''}`,
      ]),
    )
    const before = this.#escalations
    this.#escalations = now
    if (before === undefined) return
    const gone = [...before.keys()].filter((id) => !now.has(id))
    const changed = [...now].filter(([id, version]) => before.get(id) !== version).map(([id]) => id)
    const event: EscalationsEvent = { changed: [...changed, ...gone] }
    if (event.changed.length > 0) this.#sink.send('escalations', event)
  }
}

function keyOf(client: Reviewer): string {
  return client.kind === 'admin' ? client.kind : personKeyOf(client.identity)
}

function endOf({ code, message }: Refusal): EndEvent {
  return { error: code, message }
}

/** False if `signal` aborts first. */
function passed(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false)
    const abort = () => {
      clearTimeout(timer)
      resolve(false)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve(true)
    }, milliseconds)
    signal.addEventListener('abort', abort, { once: true })
  })
}
