// Where a target of the policy leads. `mcp+http(s)://…` is an MCP server that the invoke protocol reaches too.

export interface Target {
  readonly url: URL
  /** Whether the invoke protocol calls its tools by MCP. */
  readonly isMcp: boolean
}

const prefix = /^mcp\+(?=https?:)/i

/** The URL that the target stands for, whether or not it is one. */
export function addressOf(target: string): string {
  return target.replace(prefix, '')
}

/** Throws `TypeError` for what is no URL. */
export function targetOf(target: string): Target {
  const address = addressOf(target)
  return { url: new URL(address), isMcp: address !== target }
}
