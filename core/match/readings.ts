// How programs may read a name that a URL path carries: they decode the segment `<tool>@<version>`, and split it where
// they find an "@".

import { ReferenceInputError, referenceOfText, type ToolParts } from './reference.js'
import { referenceOf, subjectOf } from './subject.js'

/** All forms of "@" for a program that folds full-width forms. */
const AT = /[@\uff20\ufe6b]/g
const HAS_AT = /[@\uff20\ufe6b]/

/** The number of readings grows with the square of it. */
const MAX_AT = 4

const NONE: readonly string[] = []

/**
 * The references that a program may read in the path segment of a tool beside the intended one: the name ends at any
 * "@" after its first character, and the version is the rest or any of its parts.
 *
 * @throws {ReferenceInputError} for more than four "@" in the name, and if a part before one is not a name
 */
export function pathReadings({ server, tool, version }: ToolParts): readonly string[] {
  if (!HAS_AT.test(tool)) return NONE
  const ends = [...tool.matchAll(AT)].map(({ index }) => index)
  if (ends.length > MAX_AT)
    throw new ReferenceInputError('ambiguous_at', `the tool name holds "@" more than ${MAX_AT} times`)
  const readings = new Set<string>()
  for (const end of ends) {
    if (end === 0) continue
    const rest = `${tool.slice(end + 1)}@${version}`
    for (const part of [rest, ...rest.split(AT)])
      readings.add(referenceOfText({ server, tool: tool.slice(0, end), version: part }))
  }
  return [...readings]
}

/** The canonical reference with its names folded. */
export function foldReference(reference: string): string {
  return referenceOf(subjectOf(reference).folded)
}
