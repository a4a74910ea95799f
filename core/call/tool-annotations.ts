// What MCP servers list of their tools: their names, and annotations (`tools/list`, "Tool Annotations"), which are hints of
// the server, to be used only if the server is trusted.
import type { MaybePromise } from './maybe-promise.js'

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
