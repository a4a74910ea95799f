// Inspects zod 4 schemas for the reader of policies.
import { z } from 'zod'

export type Schema = z.core.$ZodType

/** The schema of the input without wrappers such as optional, default, readonly and pipe. */
export function unwrapped(schema: Schema): Schema {
  let inner = schema
  for (;;) {
    if (
      inner instanceof z.core.$ZodOptional ||
      inner instanceof z.core.$ZodNullable ||
      inner instanceof z.core.$ZodDefault ||
      inner instanceof z.core.$ZodPrefault ||
      inner instanceof z.core.$ZodNonOptional ||
      inner instanceof z.core.$ZodReadonly ||
      inner instanceof z.core.$ZodCatch
    ) {
      inner = inner._zod.def.innerType
    } else if (inner instanceof z.core.$ZodPipe) {
      const { in: first, out } = inner._zod.def
      inner = first instanceof z.core.$ZodTransform ? out : first
    } else if (inner instanceof z.core.$ZodLazy) {
      inner = inner._zod.def.getter()
    } else {
      return inner
    }
  }
}

/** The keys of an object schema; empty for any other. */
export function keysOf(schema: Schema): string[] {
  const inner = unwrapped(schema)
  return inner instanceof z.core.$ZodObject ? Object.keys(inner._zod.def.shape) : []
}

/** The schema for keys that are not listed; undefined if such keys are mistakes. */
export function catchallOf(schema: z.core.$ZodObject): Schema | undefined {
  const { catchall } = schema._zod.def
  return catchall === undefined || catchall instanceof z.core.$ZodNever ? undefined : catchall
}

export type NodeKind = 'map' | 'list' | 'scalar'

/** The kind of node that a schema accepts; undefined if it accepts any. */
export function nodeKindOf(schema: Schema): NodeKind | undefined {
  const inner = unwrapped(schema)
  if (inner instanceof z.core.$ZodObject || inner instanceof z.core.$ZodRecord) return 'map'
  if (inner instanceof z.core.$ZodArray || inner instanceof z.core.$ZodTuple) return 'list'
  if (inner instanceof z.core.$ZodUnion) {
    const shapes = new Set(inner._zod.def.options.map(nodeKindOf))
    return shapes.size === 1 ? [...shapes][0] : undefined
  }
  const isOpen =
    inner instanceof z.core.$ZodUnknown ||
    inner instanceof z.core.$ZodAny ||
    inner instanceof z.core.$ZodCustom
  return isOpen ? undefined : 'scalar'
}

/** The scalar types that a schema accepts: a substituted string is converted to these. */
export function scalarsOf(schema: Schema): Set<string> {
  const inner = unwrapped(schema)
  if (inner instanceof z.core.$ZodUnion) {
    return new Set(inner._zod.def.options.flatMap((option) => [...scalarsOf(option)]))
  }
  if (inner instanceof z.core.$ZodLiteral) return new Set(inner._zod.def.values.map((value) => typeof value))
  if (inner instanceof z.core.$ZodEnum) {
    return new Set(Object.values(inner._zod.def.entries).map((value) => typeof value))
  }
  if (inner instanceof z.core.$ZodNumber) return new Set(['number'])
  if (inner instanceof z.core.$ZodBoolean) return new Set(['boolean'])
  return new Set(['string'])
}

/** The values of an enum or literal; empty for any other schema. */
export function listedValues(schema: Schema): unknown[] {
  const inner = unwrapped(schema)
  if (inner instanceof z.core.$ZodLiteral) return [...inner._zod.def.values]
  if (inner instanceof z.core.$ZodEnum) return Object.values(inner._zod.def.entries)
  if (inner instanceof z.core.$ZodUnion) return inner._zod.def.options.flatMap(listedValues)
  return []
}
