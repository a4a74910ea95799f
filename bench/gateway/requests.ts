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

export interface Post {
  readonly path: string
  readonly token: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}

export function requestsFor(port: number, tokens: readonly string[]): string[] {
  const path = `/mcp/${SERVER}/${TOOL}@${VERSION}`
  const headers = { accept: 'application/json' }
  return tokens.map((token) => requestOf(port, { path, token, headers, body: ARGUMENTS }))
}

export function requestOf(port: number, { path, token, headers, body }: Post): string {
  const text = JSON.stringify(body)
  return [
    `POST ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    'user-agent: agent/1.0',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    `authorization: Bearer ${token}`,
    '',
    text,
  ].join('\r\n')
}
