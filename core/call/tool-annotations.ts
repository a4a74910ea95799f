// MCP tool annotations (`tools/list`, "Tool Annotations"): hints of the server, to be used only if the server is
// trusted.

export interface ToolAnnotations {
  /**
   * A function that says whether a tool, by its canonical reference, has side effects according to its server; undefined
   * if the server has sent no recent annotation. `targets` as in the policy.
   */
  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined
}
