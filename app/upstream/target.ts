// Parses the addresses of targets. `mcp+http(s)://…` is an MCP server that the invoke protocol reaches too, and so is
// `stdio:…`, the address of a command.

export interface Target {
  readonly url: URL
  /** Whether the invoke protocol calls its tools by MCP. */
  readonly isMcp: boolean
}

const prefix = /^mcp\+(?=https?:)/i

/** The target without its `mcp+` prefix; it need not be a valid URL. */
export function addressOf(target: string): string {
  return target.replace(prefix, '')
}

/** Throws `TypeError` if it is not a URL. */
export function targetOf(target: string): Target {
  const address = addressOf(target)
  const url = new URL(address)
  return { url, isMcp: address !== target || url.protocol === 'stdio:' }
}
