// Finds the patterns that a section has, by its schema, and the servers that they name: a rule about a server that is not
// in `targets` would apply to no call.
import { z } from 'zod'
import { compilePatternSet } from '../match/matcher.js'
import { compilePattern, hasLiteralServer } from '../match/pattern.js'
import type { ConfigConflict } from '../plugin/plugin.js'
import type { PolicyHost } from '../plugin/policy-tokens.js'
import { patternKind } from './fields.js'
import { type Schema, unwrapped } from './schema-kind.js'
import { unknownServer } from './spelling.js'
import type { EffectivePolicy } from './types.js'

type Path = readonly (string | number)[]

/** A pattern over references, and where it is in the policy. */
export interface WrittenPattern {
  readonly pattern: string
  readonly path: Path
}

/** The patterns in a value of the schema, as entries of lists and as keys. */
function patternsIn(schema: Schema, value: unknown, path: Path): WrittenPattern[] {
  const inner = unwrapped(schema)
  if (typeof value === 'string') return patternKind(inner) === 'pattern' ? [{ pattern: value, path }] : []
  if (typeof value !== 'object' || value === null) return []
  if (inner instanceof z.core.$ZodUnion)
    return inner._zod.def.options.flatMap((one) => patternsIn(one, value, path))
  if (inner instanceof z.core.$ZodArray) {
    const { element } = inner._zod.def
    return Array.isArray(value)
      ? value.flatMap((one, index) => patternsIn(element, one, [...path, index]))
      : []
  }
  const entries = Object.entries(value)
  if (inner instanceof z.core.$ZodRecord) {
    const { valueType } = inner._zod.def
    const isByPattern = patternKind(inner) === 'keys'
    return entries.flatMap(([key, one]) => [
      ...(isByPattern ? [{ pattern: key, path: [...path, key] }] : []),
      ...patternsIn(valueType, one, [...path, key]),
    ])
  }
  if (!(inner instanceof z.core.$ZodObject)) return []
  const { shape } = inner._zod.def
  return entries.flatMap(([key, one]) => {
    const member = shape[key]
    return member === undefined ? [] : patternsIn(member, one, [...path, key])
  })
}

/** The patterns of all sections. */
export function patternsOf({
  plugins,
  sections,
}: Pick<EffectivePolicy<unknown>, 'plugins' | 'sections'>): WrittenPattern[] {
  return plugins.flatMap(({ name, schema }) => patternsIn(schema, sections.get(name), [name]))
}

/** What is wrong with the servers of patterns. A wildcard may be meant for targets to come. */
export function serversOfPatterns(
  found: readonly WrittenPattern[],
  { servers, isForSeveral }: PolicyHost,
): ConfigConflict[] {
  const literal = found.filter(({ pattern }) => hasLiteralServer(compilePattern(pattern)))
  if (servers === undefined || isForSeveral === true) return unchecked(literal)
  const known = servers.join(', ') || 'none'
  return found.flatMap((one): ConfigConflict[] => {
    const { pattern, path } = one
    if (matchesServer(pattern, servers, path.includes('allowlist'))) return []
    if (!literal.includes(one))
      return [{ path, message: `"${pattern}" matches no target; known: ${known}`, severity: 'note' }]
    const name = serverIn(pattern)
    const message = unknownServer(name, servers) ?? `no target is named exactly "${name}"; known: ${known}`
    return [{ path, message: `"${pattern}": ${message}` }]
  })
}

function unchecked(literal: readonly WrittenPattern[]): ConfigConflict[] {
  const [first] = literal
  if (first === undefined) return []
  const names = [...new Set(literal.map(({ pattern }) => serverIn(pattern)))].join(', ')
  const message = `the policy has no targets, so the names of servers in patterns are not checked: ${names}`
  return [{ path: first.path, message, severity: 'note' }]
}

/** Lists that restrict compare names without regard to case, among other things. */
function matchesServer(pattern: string, servers: readonly string[], allows: boolean): boolean {
  const matchesOne = (text: string, names: readonly string[]) => {
    const set = compilePatternSet([text])
    return names.some((name) => set.mayMatchServer(name))
  }
  if (matchesOne(pattern, servers)) return true
  const lower = servers.map((name) => name.toLowerCase())
  return !allows && matchesOne(pattern.toLowerCase(), lower)
}

/** The server of a pattern, as it is written. */
function serverIn(pattern: string): string {
  return pattern.replace(/^mcp:\/\//, '').split('/')[0] ?? ''
}
