// The slot by which the protection `definitions` learns what `text` withholds, and tells which names it knows.
import { type Call, type DefinitionPage, type ReceivedDefinition, slot } from '@svc/core'

/** The names of one server that a person or the lock file pinned. */
export interface ReviewedNames {
  /** Another value after each change. */
  readonly basis: unknown
  isReviewed(definition: ReceivedDefinition): boolean
  /** Tools in the lock file, of all servers. */
  readonly lockedTools: Iterable<readonly [server: string, names: readonly string[]]>
}

export interface DefinitionTextFilter {
  withheld(call: Call, page: DefinitionPage, names: ReviewedNames): Promise<ReadonlySet<ReceivedDefinition>>
  /** Takes the names of definitions that a caller is shown for those of the server. */
  learn(server: string, shown: readonly ReceivedDefinition[], names: ReviewedNames): void
}

export const definitionTexts = slot<DefinitionTextFilter>('protections/definition_texts')
