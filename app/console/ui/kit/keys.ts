// Keys without a modifier, which work unless the user writes.
import { useEffect, useRef } from 'preact/hooks'

type Keys = Readonly<Record<string, () => void>>

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, dialog') !== null
}

/** `keys` by `KeyboardEvent.key`. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const act = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined
      if (act === undefined || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target))
        return
      // On a link or button they are a click.
      if (
        (event.key === 'Enter' || event.key === ' ') &&
        event.target instanceof HTMLElement &&
        event.target.closest('a, button, summary')
      )
        return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}
