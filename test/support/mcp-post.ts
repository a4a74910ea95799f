// Messages of an MCP client that is written by hand, over HTTP.

type Headers = Readonly<Record<string, string>>

/** POSTs a message, whose `jsonrpc` is added, or a batch. */
export function postMcp(
  url: string,
  message: object,
  headers: Headers = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  const common = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const body = JSON.stringify(Array.isArray(message) ? message : { jsonrpc: '2.0', ...message })
  return fetch(url, { method: 'POST', headers: { ...common, ...headers }, body, signal })
}

interface StatelessOptions {
  readonly id?: string | number
  readonly headers?: Headers
  readonly capabilities?: object
  /** More of `_meta`. */
  readonly meta?: object
  readonly signal?: AbortSignal | undefined
}

/** A request of 2026-07-28, whose headers repeat its revision, its method and the name of what it asks for. */
export function postStateless(
  url: string,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  { id = 1, headers = {}, capabilities = {}, meta = {}, signal }: StatelessOptions = {},
): Promise<Response> {
  const name = params['name'] ?? params['uri']
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    ...meta,
  }
  const repeated = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(name === undefined ? {} : { 'mcp-name': String(name) }),
  }
  return postMcp(url, { id, method, params: { ...params, _meta } }, { ...repeated, ...headers }, signal)
}

/** The last message of a response, which is JSON or events. */
export async function lastMessage<Message>(response: Response): Promise<Message> {
  const lines = (await response.text())
    .split('\n')
    .flatMap((line) => /^(?:data: )?(\{.*)$/.exec(line)?.[1] ?? [])
  return JSON.parse(lines.at(-1) ?? '{}') as Message
}

/** The text of a stream, as soon as it has `awaited`. */
export async function readUntil(response: Response, awaited: string): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true })
    if (text.includes(awaited)) return text
  }
  throw new Error(`the stream ended without it: ${text}`)
}
