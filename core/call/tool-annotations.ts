// What MCP servers say of their tools (`tools/list`, "Tool Annotations"): hints, for whoever trusts the server.

export interface ToolAnnotations {
  /**
   * Whether a tool, by its canonical reference, changes something, in the words of the server at its target's
   * address; undefined where the server has said nothing, or not lately. `targets` as in the policy.
   */
  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined
}
