// The newest calls, as they come: a bounded number is kept, and while the page is paused those at that moment are shown.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallRow } from '../../calls/call-row.js'
import type { SealedEvent } from '../../events/event-schemas.js'
import { useConnection, useEvents } from '../kit/events.js'
import type { EventsConnection } from '../kit/gateway-events.js'

const KEPT = 1000
/** Time after which a sampled stream counts as whole again, in milliseconds. */
const SAMPLED_MS = 3000

interface CallStream {
  /** The newest first. */
  readonly rows: readonly CallRow[]
  /** Calls that came while the page is paused and match; undefined if it is not paused. */
  readonly held: number | undefined
  togglePause(): void
  /** Above 1: every n-th call is shown. */
  readonly oneIn: number
  readonly connection: EventsConnection
  /** The calls that came after the last lost connection. */
  readonly backfilled: number | undefined
  isSealed(id: string): boolean
  /** Whether the call came after the page. */
  isNew(id: string): boolean
}

export function useCallStream(
  initial: readonly CallRow[],
  matches: (row: CallRow) => boolean,
  reload: () => Promise<readonly CallRow[]>,
): CallStream {
  const [rows, setRows] = useState(initial)
  const [paused, setPaused] = useState<readonly CallRow[] | undefined>()
  const [held, setHeld] = useState(0)
  const [oneIn, setOneIn] = useState(1)
  const [ends, setEnds] = useState<SealedEvent['ends']>([])
  const [backfilled, setBackfilled] = useState<number | undefined>()
  const wasLost = useRef(false)
  const [first] = useState(initial[0]?.id)
  const connection = useConnection()
  const add = (more: readonly CallRow[]) => setRows((old) => joined(old, more))

  useEffect(() => {
    if (connection === 'lost') {
      wasLost.current = true
      setBackfilled(undefined)
    }
    // Without a first call, the stream could not ask for the calls after it.
    if (connection === 'open' && first === undefined && rows.length === 0) {
      // The stream goes on without them, and its next call shows them.
      void reload().then(add, () => undefined)
    }
  }, [connection])
  useEffect(() => {
    if (oneIn === 1) return
    const timer = setTimeout(() => setOneIn(1), SAMPLED_MS)
    return () => clearTimeout(timer)
  }, [oneIn, rows])

  useEvents(
    {
      calls({ rows: more, seen, one_in: every, is_backfill: isBackfill }) {
        if (isBackfill && wasLost.current) setBackfilled(seen)
        if (isBackfill) wasLost.current = false
        setOneIn(every)
        add(more.toReversed())
        // The calls that the server left out match the filter in the same proportion as those that it sent.
        setHeld((count) => count + Math.min(more.filter(matches).length * every, seen))
      },
      sealed: (event) => setEnds(event.ends),
    },
    first,
  )
  return {
    rows: paused ?? rows,
    held: paused === undefined ? undefined : held,
    togglePause() {
      setHeld(0)
      setPaused(paused === undefined ? rows : undefined)
    },
    oneIn,
    connection,
    backfilled,
    isSealed: (id) => isSealedBy(ends, id),
    isNew: (id) => first === undefined || compareIds(id, first) > 0,
  }
}

/** Without those that are there; both the newest first. */
function joined(old: readonly CallRow[], more: readonly CallRow[]): readonly CallRow[] {
  const newest = old[0]?.id
  const added = newest === undefined ? more : more.filter(({ id }) => compareIds(id, newest) > 0)
  return added.length === 0 ? old : [...added, ...old].slice(0, KEPT)
}

/** Ids are `<day>:<byte>`. */
function compareIds(a: string, b: string): number {
  const [dayOfA = '', byteOfA] = a.split(':')
  const [dayOfB = '', byteOfB] = b.split(':')
  if (dayOfA !== dayOfB) return dayOfA < dayOfB ? -1 : 1
  return Number(byteOfA) - Number(byteOfB)
}

function isSealedBy(ends: SealedEvent['ends'], id: string): boolean {
  const [oldest] = ends
  if (oldest === undefined) return false
  const [day = '', byte] = id.split(':')
  const found = ends.find((one) => one.day === day)
  return found === undefined ? day < oldest.day : Number(byte) <= found.end
}
