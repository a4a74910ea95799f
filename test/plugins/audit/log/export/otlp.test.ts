import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { expect } from 'chai'
import { listenOnLoopback } from '../../../../support/loopback.js'
import { attributesOf, OtlpReceiver } from '../../../../support/otlp-receiver.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { DAY } from '../writer/records.js'
import { exportingLog, receiver } from './receivers.js'

describe('the export by OTLP', () => {
  const dir = temporaryDir()

  it('sends logs that the published messages know, with the trace of the call', async () => {
    await using server = await OtlpReceiver.start()
    const config = { ...receiver({ type: 'otlp', url: `${server.url}/v1/logs` }), format: 'ocsf' as const }
    await using log = exportingLog(dir.path, { receiver: config })
    const spans = await log.append(3)
    expect(await log.attempt()).to.deep.equal({ records: 3, error: '' })
    expect(server.mistakes).to.deep.equal([])
    expect(server.logs.map(({ spanId }) => spanId)).to.deep.equal(spans)
    const [first] = server.logs
    expect(first).to.include({
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
      timeUnixNano: `${Date.parse(`${DAY}T10:00:00.000Z`)}000000`,
      severityText: 'INFO',
    })
    const body = first?.body.kvlistValue?.values ?? []
    expect(attributesOf({ attributes: body })).to.include({
      class_uid: '6003',
      type_uid: '600399',
      action: 'Allowed',
    })
  })

  type Respond = (response: ServerResponse, request: IncomingMessage) => void
  const misbehaviours: [name: string, error: RegExp, respond: Respond][] = [
    ['never responds', /no complete response within 200 ms/, () => undefined],
    ['resets', /failed: /, (_, request) => request.socket.resetAndDestroy()],
    ['is full', /responded with 507/, (response) => response.writeHead(507).end()],
    [
      'is overloaded',
      /responded with 429/,
      (response) => response.writeHead(429, { 'retry-after': '1' }).end(),
    ],
    ['refuses the credentials', /responded with 401/, (response) => response.writeHead(401).end()],
    ['redirects', /responded with 302/, (response) => response.writeHead(302, { location: '/' }).end()],
    ['says 200 with a page', /not an OTLP response/, (response) => response.end('<html>Sign in</html>')],
    [
      'says 200 without end',
      /not an OTLP response|no complete response/,
      (response) => response.end(`{"a":"${'x'.repeat(100_000)}"}`),
    ],
    ...[
      '{"status":"error"}',
      '[]',
      '"ok"',
      'null',
      '{"partialSuccess":"x"}',
      '{"partialSuccess":[1]}',
      '{',
    ].map((body): (typeof misbehaviours)[number] => [
      `says 200 with ${body}`,
      /not an OTLP response/,
      (response) => response.end(body),
    ]),
    ...['-1', 'x', '1e400', '0.5'].map((count): (typeof misbehaviours)[number] => [
      `says that it rejected ${count}`,
      /rejected .* records/,
      (response) => response.end(JSON.stringify({ partialSuccess: { rejectedLogRecords: count } })),
    ]),
    [
      'rejects some records',
      /rejected 2 records: no space/,
      (response) => response.end('{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"no space"}}'),
    ],
  ]
  for (const [name, error, respond] of misbehaviours) {
    it(`loses nothing with a receiver that ${name}`, async () => {
      let behave = respond
      const spans: string[] = []
      const authorizations = new Set<string | undefined>()
      const server = createServer((request, response) => {
        const pieces: Buffer[] = []
        request.on('data', (piece: Buffer) => pieces.push(piece))
        request.on('end', () => {
          authorizations.add(request.headers.authorization)
          if (behave === good) spans.push(...spansIn(Buffer.concat(pieces)))
          behave(response, request)
        })
      })
      const good: Respond = (response) => response.end('{}')
      await using listening = await listenOnLoopback(server)
      await using log = exportingLog(dir.path, {
        receiver: receiver({ type: 'otlp', url: `${listening.url}/v1/logs` }, { timeoutMs: 200 }),
        secrets: async () => ({ authorization: 'Bearer secret-1' }),
      })
      const appended = await log.append(20)
      const attempt = await log.attempt()
      expect(attempt.error).to.match(error).and.not.include('secret-1')
      expect(attempt.records).to.equal(0)
      behave = good
      expect(await log.attempt()).to.deep.equal({ records: 20, error: '' })
      expect(spans).to.deep.equal(appended)
      expect([...authorizations]).to.deep.equal(['Bearer secret-1'])
    })
  }

  it('halves what it sends to a receiver that takes only small requests', async () => {
    const spans: string[] = []
    const server = createServer((request, response) => {
      const pieces: Buffer[] = []
      request.on('data', (piece: Buffer) => pieces.push(piece))
      request.on('end', () => {
        const body = Buffer.concat(pieces)
        if (body.length > 30_000) return response.writeHead(413).end()
        spans.push(...spansIn(body))
        return response.end()
      })
    })
    await using listening = await listenOnLoopback(server)
    await using log = exportingLog(dir.path, {
      receiver: receiver({ type: 'otlp', url: `${listening.url}/v1/logs` }),
    })
    const appended = await log.append(200)
    let attempts = 0
    while ((await log.attempt()).error !== '') expect(++attempts).to.be.below(50)
    expect(spans).to.deep.equal(appended)
  })
})

function spansIn(body: Buffer): string[] {
  return JSON.parse(body.toString()).resourceLogs.flatMap(
    (one: { scopeLogs: { logRecords: { spanId: string }[] }[] }) =>
      one.scopeLogs.flatMap(({ logRecords }) => logRecords.map(({ spanId }) => spanId)),
  )
}
