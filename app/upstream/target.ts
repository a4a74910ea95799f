// Parses the addresses of targets. `mcp+http(s)://…` is an MCP server that the invoke protocol reaches too, and so is
// `stdio:…`, the address of a command.

export interface Target {
  readonly url: URL
  /** Whether the invoke protocol calls its tools by MCP. */
  readonly isMcp: boolean
  /** The path and the query of the URL, which serializes them anew each time; the path without a slash at its end. */
  readonly path: string
  readonly query: string
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
  const { pathname, search: query } = url
  const path = pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
  return { url, isMcp: address !== target || url.protocol === 'stdio:', path, query }
}
