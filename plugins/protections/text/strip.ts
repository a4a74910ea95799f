// Takes findings out of a text. What hides text is removed alone; of what addresses the model the whole lines go, as the
// words around a phrase carry on what it begins.

import type { Span } from '@svc/core/pii'
import { MAX_FINDINGS, NEAR, type TextFinding } from './scan.js'

/** Classes whose findings are removed without the text around them. */
const alone: ReadonlySet<string> = new Set(['hidden', 'secret', 'personal'])

interface Cut extends Span {
  readonly rule: string
  readonly isSilent: boolean
}

/** The text without what was found for certain, and without uncertain findings near it. */
export function stripped(text: string, findings: readonly TextFinding[]): string {
  if (findings.length >= MAX_FINDINGS && findings.some(({ certain }) => certain))
    return removedMark('too many findings')
  const certain = findings.filter((one) => one.certain)
  if (certain.length === 0) return text
  const cuts = certain.map((one) => cutOf(text, one)).sort((a, b) => a.start - b.start)
  let shown = ''
  let copied = 0
  for (const { start, end, rule, isSilent } of joined(cuts)) {
    shown += text.slice(copied, Math.max(copied, start)) + (isSilent ? '' : removedMark(rule))
    copied = Math.max(copied, end)
  }
  return shown + text.slice(copied)
}

/** The text that replaces removed text. */
export function removedMark(what: string): string {
  return `[removed: ${what}]`
}

function cutOf(text: string, { start, end, rule }: TextFinding): Cut {
  if (alone.has(rule.class)) return { start, end, rule: rule.id, isSilent: rule.class === 'hidden' }
  const before = text.lastIndexOf('\n', start - 1)
  const after = text.indexOf('\n', end)
  return {
    start: start === 0 ? 0 : before + 1,
    end: after < 0 ? text.length : after,
    rule: rule.id,
    isSilent: false,
  }
}

/** Cuts of lines that are near each other are one: what stands between them belongs to them. */
function* joined(cuts: readonly Cut[]): Generator<Cut> {
  let last: Cut | undefined
  for (const cut of cuts) {
    const isNear =
      last !== undefined &&
      (cut.isSilent || last.isSilent ? cut.start <= last.end : cut.start - last.end <= NEAR)
    if (last !== undefined && isNear)
      last = { ...last, end: Math.max(last.end, cut.end), isSilent: last.isSilent && cut.isSilent }
    else {
      if (last !== undefined) yield last
      last = cut
    }
  }
  if (last !== undefined) yield last
}
