// The whole input of a call, and whether its reader has seen the end of it.
import type { JSX, RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { hiddenCharacters, Untrusted } from '../kit/untrusted.js'

interface InputProps {
  readonly text: string
  /** Called once its end has been on the screen. */
  readonly onSeen: () => void
}

export function Input({ text, onSeen }: InputProps): JSX.Element {
  const end = useOnScreen<HTMLDivElement>(onSeen)
  const hidden = hiddenCharacters(text)
  return (
    <section>
      <h3>
        Input
        {hidden.map(({ name, count }) => (
          <span class="badge bad" key={name}>
            {count} hidden character{count === 1 ? '' : 's'}: {name}
          </span>
        ))}
      </h3>
      <pre class="input">
        <Untrusted text={indented(text)} isBlock cut={Number.POSITIVE_INFINITY} />
      </pre>
      <div ref={end} />
    </section>
  )
}

/** Calls `onSeen` whenever the element comes on the screen, above the vote on its call, which covers what is below. */
export function useOnScreen<Box extends HTMLElement>(onSeen: () => void): RefObject<Box | null> {
  const box = useRef<Box>(null)
  const latest = useRef(onSeen)
  latest.current = onSeen
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const call = element.closest('.approval')
    let observer: IntersectionObserver | undefined
    const observe = () => {
      observer?.disconnect()
      const top = call?.querySelector('.ballot')?.getBoundingClientRect().top ?? innerHeight
      observer = new IntersectionObserver(
        (entries) => {
          if (entries.some(({ isIntersecting }) => isIntersecting)) latest.current()
        },
        { rootMargin: `0px 0px -${Math.max(0, Math.ceil(innerHeight - top))}px` },
      )
      observer.observe(element)
    }
    // The vote becomes higher with its comment, and the call with it.
    const sizes = new ResizeObserver(observe)
    sizes.observe(call ?? element)
    addEventListener('resize', observe)
    return () => {
      removeEventListener('resize', observe)
      sizes.disconnect()
      observer?.disconnect()
    }
  }, [])
  return box
}

/** The input with line breaks, or unchanged if it is not JSON, as redaction may leave it. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
