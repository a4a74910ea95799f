// A value with a button that copies it.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

interface CopyProps {
  /** The text that is copied. */
  readonly value: string
  /** The name of the value, for screen readers. */
  readonly label: string
  /** The text that is shown; default: the value. */
  readonly children?: ComponentChildren
}

export function Copy({ value, label, children = value }: CopyProps): JSX.Element {
  const [state, setState] = useState<'' | 'copied' | 'not copied'>('')
  useEffect(() => {
    if (state === '') return
    const timer = setTimeout(() => setState(''), 2000)
    return () => clearTimeout(timer)
  }, [state])
  const copy = () =>
    navigator.clipboard.writeText(value).then(
      () => setState('copied'),
      () => setState('not copied'),
    )
  return (
    <button type="button" class="copy" title={`Copy ${label}`} onClick={copy}>
      <span class="sr">Copy {label}: </span>
      <span class="mono">{children}</span>
      <span class="copied" role="status">
        {state}
      </span>
    </button>
  )
}
