// Sends complete requests of the load generator, each with an idempotency key if asked.
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'undici'

const CONNECTIONS = 16

/** Sends so many calls; rejects if one has no good response. */
export async function sendAll(
  port: number,
  texts: readonly string[],
  calls: number,
  key?: 'fresh' | 'same',
): Promise<void> {
  const requests = texts.map(parse)
  const dispatcher = new Agent({ connections: CONNECTIONS })
  const same = randomUUID()
  let sent = 0
  const caller = async (_: unknown, at: number) => {
    // Each caller repeats one request, as a session runs one request of an id at a time.
    const { path, headers, body } = requests[at % requests.length] ?? { path: '', headers: {}, body: '' }
    while (sent++ < calls) {
      const id = key === 'same' ? `${same}-${at}` : randomUUID()
      const own = key === undefined ? headers : { ...headers, 'idempotency-key': id }
      const response = await request(`http://127.0.0.1:${port}${path}`, {
        method: 'POST',
        headers: own,
        body,
        dispatcher,
      })
      const text = await response.body.text()
      if (response.statusCode !== 200) throw new Error(`a call had ${response.statusCode}: ${text}`)
    }
  }
  try {
    await Promise.all(Array.from({ length: CONNECTIONS }, caller))
  } finally {
    await dispatcher.close()
  }
}

interface ParsedRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

function parse(text: string): ParsedRequest {
  const [head = '', body = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = lines.map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string])
  const kept = headers.filter(([name]) => name !== 'content-length')
  return { path: first.split(' ')[1] ?? '', headers: Object.fromEntries(kept), body }
}
