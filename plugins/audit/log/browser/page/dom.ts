// Builds elements from text alone: nothing of a record is ever parsed as HTML.
import { visibleInLine } from '@svc/core/json/portable'

type Child = Node | string

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string>>,
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

/** The element of the page with this id. */
export function part(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element ${id}`)
  return found
}

const LONGEST = 200

/** A value that a caller or a server chose. */
export function untrusted(value: unknown): HTMLElement {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'none')
  const shown = visibleInLine(text.slice(0, LONGEST))
  const made = element('code', { dir: 'ltr' }, shown)
  if (text.length > LONGEST) made.append(element('em', {}, ` … (${text.length} characters)`))
  return made
}
