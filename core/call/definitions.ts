// What servers say of themselves to models: the definitions in their lists, and their instructions.

import { slot } from './slot.js'
import type { Identity } from './slots.js'

export type DefinitionKind = 'tool' | 'prompt' | 'template' | 'instructions'

/** A definition as a server sent it. */
export interface ReceivedDefinition {
  readonly kind: DefinitionKind
  /** Name of the tool or prompt, URI of the template; empty for instructions. */
  readonly name: string
  readonly value: unknown
}

export interface DefinitionFilter {
  /**
   * Whether the caller may get each of the definitions of one response. Rejects with `Refusal` if it cannot be known or
   * recorded.
   */
  mayShow(received: readonly ReceivedDefinition[]): Promise<readonly boolean[]>
}

/** Set by a stage that knows definitions; the gateway asks it before a list or a handshake goes to the caller. */
export const definitionFilter = slot<DefinitionFilter>('definitionFilter')

/** SHA-256 of the definition of the called tool or prompt that this caller was last served; null if none was. */
export const servedDefinition = slot<{ readonly sha256: string | null }>('servedDefinition')

/** A definition that a gateway keeps of a server. */
export interface KnownDefinition {
  readonly server: string
  readonly kind: DefinitionKind
  readonly name: string
  readonly sha256: string
  /** `pinned`: callers may get it; `waiting`: it is withheld until somebody accepts it. */
  readonly state: 'pinned' | 'waiting'
  /** When it was first received. */
  readonly at: string
  /** Canonical JSON; absent if it is not kept. */
  readonly text?: string
  /** Canonical JSON of the definitions of this kind and name that are pinned, if this one waits. */
  readonly pinned?: readonly string[]
}

/** What people ask and decide about definitions, outside calls. Rejects with `Refusal`. */
export interface DefinitionReview {
  waiting(server?: string): Promise<readonly KnownDefinition[]>
  /** Pins definitions that wait, and returns them; each is recorded. Without hashes all of the server. */
  accept(
    server: string,
    sha256: readonly string[] | undefined,
    by: Identity,
    traceId: string,
  ): Promise<readonly KnownDefinition[]>
}
