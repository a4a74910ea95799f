// A box of preformatted text with its own scroll, which keys reach.
import type { ComponentChildren, JSX } from 'preact'

interface ScrollBoxProps {
  readonly class: string
  readonly label: string
  readonly onScroll?: (box: HTMLElement) => void
  readonly boxRef?: (box: HTMLElement | null) => void
  readonly children: ComponentChildren
}

export function ScrollBox({ class: name, label, onScroll, boxRef, children }: ScrollBoxProps): JSX.Element {
  return (
    <section
      class={name}
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll what has the focus (WCAG 2.1.1)
      tabIndex={0}
      ref={boxRef ?? null}
      onScroll={(event) => onScroll?.(event.currentTarget)}
    >
      <pre>{children}</pre>
    </section>
  )
}
