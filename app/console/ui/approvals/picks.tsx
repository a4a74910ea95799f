// The waiting calls that are picked, to be voted on together.
import type { JSX } from 'preact'
import { useCallback, useRef, useState } from 'preact/hooks'

/** Votes that one request to the admin API may have. */
const MAX_PICKED = 50

export interface Picks {
  readonly picked: readonly string[]
  readonly isFull: boolean
  /** Picks or leaves out. `range`: picks all of these too, from the one that was picked last. */
  toggle(id: string, range?: readonly string[]): void
  add(ids: readonly string[]): void
  clear(): void
}

export function usePicks(): Picks {
  const [picked, setPicked] = useState<readonly string[]>([])
  const last = useRef<string | undefined>(undefined)
  const toggle = useCallback((id: string, range: readonly string[] = []) => {
    const [from, to] = [range.indexOf(last.current ?? ''), range.indexOf(id)]
    const between = from < 0 || to < 0 ? [id] : range.slice(Math.min(from, to), Math.max(from, to) + 1)
    const isRange = between.length > 1
    setPicked((all) =>
      all.includes(id) && !isRange
        ? all.filter((one) => one !== id)
        : [...new Set([...all, ...between])].slice(0, MAX_PICKED),
    )
    last.current = id
  }, [])
  const add = useCallback((ids: readonly string[]) => {
    setPicked((all) => [...new Set([...all, ...ids])].slice(0, MAX_PICKED))
  }, [])
  const clear = useCallback(() => setPicked([]), [])
  return { picked, isFull: picked.length === MAX_PICKED, toggle, add, clear }
}

interface PicksBarProps {
  readonly picks: Picks
  readonly onOpen: () => void
}

export function PicksBar({ picks: { picked, isFull, clear }, onOpen }: PicksBarProps): JSX.Element {
  return (
    <div class="picks" hidden={picked.length === 0}>
      <p role="status">
        {picked.length === 0 ? '' : `${picked.length} picked${isFull ? ', which is the most' : ''}`}
      </p>
      <button type="button" aria-keyshortcuts="v" onClick={onOpen}>
        Vote together <kbd>v</kbd>
      </button>
      <button type="button" class="quiet" onClick={clear}>
        Clear
      </button>
    </div>
  )
}
