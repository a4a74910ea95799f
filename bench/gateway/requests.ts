// The requests of the load generator: one prepared request per token, as an agent's HTTP client sends it.

export const SERVER = 'billing'
export const TOOL = 'list-invoices'
export const VERSION = '1.0.0'

export const ARGUMENTS = {
  customer: 'cus-88213',
  status: ['open', 'overdue'],
  since: '2026-01-01T00:00:00Z',
  limit: 25,
  order: { by: 'due', direction: 'ascending' },
  note: 'for the weekly dunning run',
}

export function requestsFor(port: number, tokens: readonly string[]): string[] {
  const body = JSON.stringify(ARGUMENTS)
  return tokens.map((token) =>
    [
      `POST /mcp/${SERVER}/${TOOL}@${VERSION} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      'user-agent: agent/1.0',
      'accept: application/json',
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      `authorization: Bearer ${token}`,
      '',
      body,
    ].join('\r\n'),
  )
}
