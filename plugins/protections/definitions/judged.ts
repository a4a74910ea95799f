// Definitions of a response against those that are known: why one is not, and what callers may be shown of it.
import type { ReceivedDefinition } from '@svc/core'
import type { Definition, Digested } from './digest.js'
import type { KnownDefinitions } from './known-document.js'
import type { Pins } from './pins.js'
import { overLimit, pageKey, type ServedPage, withheldText } from './served.js'

/** Why a definition is not known. */
const unknownReasons = [
  'tool_definition_changed',
  'tool_definition_unknown',
  'tool_definition_over_limit',
] as const
export type UnknownReason = (typeof unknownReasons)[number]

export const maxNamed = 5

export interface EvaluatedDefinition extends Digested {
  readonly reason: UnknownReason | undefined
  /** The definition for which its name is refused, which may be a namesake. */
  readonly named: string | undefined
}

/** Definitions that have one reason. */
export interface Unknown {
  readonly reason: UnknownReason
  readonly count: number
  readonly detail: string
}

export function unknownFindingOf(reason: UnknownReason, found: readonly Definition[]) {
  if (found.length === 0) return undefined
  return { reason, stage: 'protections', detail: detailOf(found) }
}

function detailOf(found: readonly Definition[]): string {
  const names = found.slice(0, maxNamed).map(({ kind, name }) => (name === '' ? kind : `${kind} ${name}`))
  const more = found.length > maxNamed ? ` and ${found.length - maxNamed} more` : ''
  return `${names.join(', ')}${more}`
}

export function unknownIn(
  judged: readonly EvaluatedDefinition[],
  unjudged: readonly Definition[],
): Unknown[] {
  return unknownReasons.flatMap((reason) => {
    const found = judged.filter((one) => one.reason === reason).map(({ received }) => received)
    if (reason === 'tool_definition_over_limit') found.push(...unjudged)
    return found.length === 0 ? [] : [{ reason, count: found.length, detail: detailOf(found) }]
  })
}

export function unknownReasonOf(
  { received: { kind, name }, sha256 }: Digested,
  known: KnownDefinitions,
  pins: Pins,
): UnknownReason | undefined {
  if (sha256 === undefined || known.entry(sha256) === undefined) return 'tool_definition_over_limit'
  if (pins.has(kind, sha256)) return undefined
  return pins.of(kind, name).length > 0 ? 'tool_definition_changed' : 'tool_definition_unknown'
}

/** If a response has a name twice, neither is shown unless both are known: the server may run either. */
export function withNamesakes(judged: readonly EvaluatedDefinition[]): readonly EvaluatedDefinition[] {
  const refused = new Map<string, Pick<EvaluatedDefinition, 'reason' | 'named'>>()
  for (const { received, reason, named } of judged) {
    if (reason !== undefined) refused.set(pageKey(received), { reason, named })
  }
  return refused.size === 0
    ? judged
    : judged.map((one) => ({ ...one, ...refused.get(pageKey(one.received)) }))
}

export function pagesOf(
  judged: readonly EvaluatedDefinition[],
  attacks: ReadonlySet<ReceivedDefinition>,
  isShown: (one: EvaluatedDefinition) => boolean,
): { readonly served: ServedPage; readonly withheld: ServedPage } {
  const served: [string, string][] = []
  const withheld: [string, string][] = []
  for (const one of judged) {
    const { received, named, reason } = one
    if (received.kind !== 'tool' && received.kind !== 'prompt') continue
    const isOver = reason === 'tool_definition_over_limit' || named === undefined
    const entry: [string, string] = [pageKey(received), isOver ? overLimit : named]
    if (isShown(one)) served.push(entry)
    else withheld.push(attacks.has(received) ? [entry[0], withheldText] : entry)
  }
  return { served: Object.fromEntries(served), withheld: Object.fromEntries(withheld) }
}
