// What to write instead of a text that other languages accept in a condition and CEL does not.
import { nearest } from '@svc/core/policy'

/** The variables of a condition. */
const variables = ['args', 'params', 'caller', 'claimed', 'tool', 'call', 'vars'] as const

const otherNames: Readonly<Record<string, string>> = {
  arguments: 'args',
  arg: 'args',
  input: 'args',
  user: 'caller',
  identity: 'caller',
  principal: 'caller',
  target: 'tool.server',
  targets: 'tool.server',
  server: 'tool.server',
}

/** Words and signs of other languages, in the order in which they are looked for. */
const forms: readonly (readonly [pattern: RegExp, remedy: string])[] = [
  [/^\s*\*\s*$/, 'a condition that is always true is true'],
  [/(?<![=!<>])=(?!=)/, 'values are compared by =='],
  [/\b(?:and|or|not)\b/i, 'write && for and, || for or, ! for not'],
  [/\.length\b|\blen\(/, 'a length is size(value)'],
]

/** `summary` is the library's message about `source`. Undefined if it says enough. */
export function remedyFor(summary: string, source: string): string | undefined {
  const [, name] = /^unknown variable: (\w+)/i.exec(summary) ?? []
  if (name === undefined) return forms.find(([pattern]) => pattern.test(withoutTexts(source)))?.[1]
  const meant = Object.hasOwn(otherNames, name) ? otherNames[name] : nearest(name, variables)
  return `${meant === undefined ? '' : `did you mean ${meant}? `}accepted are ${variables.join(', ')}`
}

function withoutTexts(source: string): string {
  return source.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, '""')
}
