// Keys without a modifier, which work unless the user is typing, or has turned them off (WCAG 2.2, 2.1.4).
import { useEffect, useRef } from 'preact/hooks'
import { storedValue, storeValue } from './storage.js'

type Keys = Readonly<Record<string, () => void>>

function isWriting(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest('input:not([type=checkbox]), textarea, select, dialog') !== null
  )
}

const OFF = 'svc-keys-off'

export function areKeysOff(): boolean {
  return storedValue(OFF) !== null
}

/** False if the choice is lost when the page is left. */
export function turnKeys(isOn: boolean): boolean {
  return storeValue(OFF, isOn ? null : '')
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
      if (areKeysOff()) return
      // Enter and space activate a link or a button.
      if (
        (event.key === 'Enter' || event.key === ' ') &&
        event.target instanceof HTMLElement &&
        event.target.closest('a, button, summary, input')
      )
        return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}

const rows = 'main :is(a.row, button.row, a.node, td:first-child > a)'

/** Moves the focus to the row that is so many below; the first step is from the one with `aria-current`. */
export function stepRow(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>(rows)]
  const focused = document.activeElement instanceof HTMLElement ? links.indexOf(document.activeElement) : -1
  const at = focused < 0 ? links.findIndex((link) => link.ariaCurrent !== null) : focused
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus()
}

/** Moves the focus to the filter of the view. */
export function focusFilter(): void {
  const filter = document.querySelector<HTMLInputElement>('main input[aria-keyshortcuts="/"]')
  filter?.closest('details')?.setAttribute('open', '')
  filter?.select()
}
