// The texts by which servers describe themselves to models: the definitions in their lists, and their instructions.
import type { Call } from './call.js'
import type { MaybePromise } from './maybe-promise.js'
import { slot } from './slot.js'

export type DefinitionKind = 'tool' | 'prompt' | 'template' | 'instructions'

/** A definition as a server sent it, or an entry of a list of resources, which is data that a model reads. */
export interface ReceivedDefinition {
  readonly kind: DefinitionKind | 'resource'
  /** Name of the tool or prompt, URI of the resource or template; empty for instructions. */
  readonly name: string
  readonly value: unknown
}

/** The definitions of one response: a page of a list, or a handshake. */
export interface DefinitionPage {
  /** Pages with the same digest have the same definitions; undefined if it is not known. */
  readonly sha256: string | undefined
  /** The same objects each time. */
  definitions(): readonly ReceivedDefinition[]
}

export interface DefinitionFilter {
  /** The definitions that the caller must not get. Rejects with `Refusal` if it cannot be known or recorded. */
  withheld(call: Call, page: DefinitionPage): MaybePromise<ReadonlySet<ReceivedDefinition>>
}

/** Set by a stage that knows definitions; the gateway asks it before a list or a handshake goes to the caller. */
export const definitionFilter = slot<DefinitionFilter>('definitionFilter')

/** Asks the server of a call for its definitions, for a caller who has listed none; empty if they cannot be read. */
export type RequestDefinitions = (kind: 'tool' | 'prompt') => Promise<readonly ReceivedDefinition[]>

/** Set for a call of a tool or prompt over MCP. */
export const requestDefinitions = slot<RequestDefinitions>('requestDefinitions')

/** The definition of the called tool or prompt, for this caller. */
export interface ServedDefinition {
  /** SHA-256 of the definition that the caller was last served; null if none was. */
  readonly sha256: string | null
  /** Hashes of the definitions by which its arguments are judged: that one, else those that are pinned by its name. */
  readonly judging: readonly string[]
  /** The canonical JSON of one of them; undefined if it is not kept. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  text(sha256: string): Promise<string | undefined>
}

export const servedDefinition = slot<ServedDefinition>('servedDefinition')

/**
 * What MCP servers list of their tools: their names, and annotations (`tools/list`, "Tool Annotations"), which are hints of the
 * server, to be used only if the server is trusted.
 */
export interface ToolAnnotations {
  /**
   * A function that says whether a tool, by its canonical reference, has side effects according to its server; undefined
   * if the server has sent no recent annotation. `targets` as in the policy.
   */
  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined
  /**
   * A function that returns the names of the tools that a server lists, if it does not list `tool`; undefined if it does, or
   * if no whole list of the server is known. It rejects with `Refusal` (`STORE_UNAVAILABLE`).
   */
  lists(
    targets: Readonly<Record<string, string>>,
  ): (server: string, tool: string) => MaybePromise<readonly string[] | undefined>
}

export type ToolLists = ReturnType<ToolAnnotations['lists']>
