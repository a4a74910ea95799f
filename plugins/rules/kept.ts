// The values that rules keep for the record.
import type { KeptValues } from '@svc/core'
import { type CallScope, evaluateBounded, Failure, type ReadPath, type Variables } from './engine/index.js'

const MAX_PATHS = 32
/** Characters of a text that is kept, so that the record of a call stays small. */
const MAX_TEXT = 256

/** Single values as they are; other values, and long texts, are withheld, and their paths say so. */
export function keptValues(
  paths: ReadonlyMap<string, ReadPath>,
  variables: Variables,
  scope: CallScope,
): KeptValues {
  const values: Record<string, string | number | boolean | null> = {}
  const absent: string[] = []
  const withheld: string[] = []
  for (const [path, { evaluate }] of paths) {
    const value =
      Object.keys(values).length < MAX_PATHS ? evaluateBounded(evaluate, variables, scope) : undefined
    if (value instanceof Failure && value.isAbsent) absent.push(path)
    else if (isKept(value)) values[path] = value
    else if (value instanceof Date) values[path] = value.toISOString()
    else withheld.push(path)
  }
  return {
    values,
    ...(absent.length === 0 ? {} : { absent }),
    ...(withheld.length === 0 ? {} : { withheld }),
  }
}

function isKept(value: unknown): value is string | number | boolean | null {
  if (typeof value === 'string') return value.length <= MAX_TEXT
  return value === null || typeof value === 'number' || typeof value === 'boolean'
}
