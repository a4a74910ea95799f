// A receiver that fails in one way or another: calls go on, the loss is counted, and logged once.
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { OtlpReceiver } from '../../support/otlp-receiver.js'
import { parseMetrics } from '../../support/prometheus.js'
import { until } from '../../support/redis.js'
import { invoke, TelemetryRig } from './rig.js'

const json = { 'content-type': 'application/json' }

interface Failure {
  readonly respond?: (response: ServerResponse) => void
  /** In place of the receiver's. */
  readonly url?: string
  readonly reason: RegExp
}

const failures: Readonly<Record<string, Failure>> = {
  'nothing listens': { url: 'http://127.0.0.1:1', reason: /ECONNREFUSED|retryable/ },
  'never responds': { respond: () => undefined, reason: /timed out|no response/i },
  'sends its response bit by bit': {
    respond: (response) => {
      response.writeHead(200, json)
      const timer = setInterval(() => response.write(' '), 20)
      response.once('close', () => clearInterval(timer))
    },
    reason: /timed out|no response/i,
  },
  'refuses with 400': {
    respond: (response) => response.writeHead(400, json).end('{}'),
    reason: /Bad Request/,
  },
  'refuses with 503': { respond: (response) => response.writeHead(503, json).end('{}'), reason: /retryable/ },
  'responds with a page': {
    respond: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>'),
    reason: /not OTLP/,
  },
  'responds without end': {
    respond: (response) => {
      response.writeHead(200, json)
      const more = (): void => {
        while (!response.destroyed && response.write('['.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    },
    reason: /size limit|timed out|no response/i,
  },
  'resets the connection': {
    respond: (response) => response.socket?.resetAndDestroy(),
    reason: /ECONNRESET|socket hang up/,
  },
  'rejects a part': {
    respond: (response) =>
      response
        .writeHead(200, json)
        .end(
          '{"partialSuccess":{"rejectedSpans":"1","rejectedLogRecords":"1","rejectedDataPoints":"1","errorMessage":"no room"}}',
        ),
    reason: /no room/,
  },
}

const signals = ['traces', 'metrics', 'logs']

describe('an OTLP receiver that does not take everything', () => {
  // Three processes try nine failures, each with one signal: the code is the same for all signals.
  const kinds = Object.keys(failures)
  for (const group of [kinds.slice(0, 3), kinds.slice(3, 6), kinds.slice(6)]) {
    const titles = group.map((kind, index) => `${signals[index]}: ${kind}`).join('; ')
    describe(titles, () => {
      it('costs no call and no clean end, and its loss is counted and logged once', async () => {
        await using receiver = await OtlpReceiver.start()
        const failureOf = (signal: string): Failure | undefined =>
          failures[group[signals.indexOf(signal)] ?? '']
        receiver.respond = (response, path) => failureOf(path.split('/').at(-1) ?? '')?.respond?.(response)
        const endpoints = signals.map((signal) => [
          `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`,
          `${failureOf(signal)?.url ?? receiver.url}/v1/${signal}`,
        ])
        const env = { OTEL_EXPORTER_OTLP_TIMEOUT: '500', ...Object.fromEntries(endpoints) }
        await using rig = await TelemetryRig.start()
        await using gateway = rig.gateway('', 'admin: { port: 0 }\n', env)
        const { url, adminUrl } = await gateway.line('listening')
        const lost = async (): Promise<Record<string, number>> => {
          const families = parseMetrics(await (await fetch(`${adminUrl}/metrics`)).text())
          const samples = families.get('svc_telemetry_lost_total')?.samples ?? []
          return Object.fromEntries(samples.map(({ labels, value }) => [String(labels['signal']), value]))
        }
        expect((await invoke(url, 'read')).status).to.equal(200)
        await until(async () => Object.values(await lost()).filter((count) => count > 0).length === 3)
        expect((await invoke(url, 'read')).status).to.equal(200)
        const { metrics = 0, traces = 0 } = await lost()
        await until(async () => {
          const now = await lost()
          return Number(now['metrics']) > metrics && Number(now['traces']) > traces
        })
        gateway.child.kill('SIGTERM')
        expect(await gateway.exit).to.equal(0)
        const warnings = (await gateway.allLines()).filter(({ msg }) =>
          msg.includes('does not take everything'),
        )
        expect(warnings.map(({ signal }) => signal).sort()).to.deep.equal([...signals].sort())
        for (const { signal, reason } of warnings)
          expect(reason).to.match(failureOf(String(signal))?.reason ?? /^$/)
      })
    })
  }
})
